# The hand-over as Kubernetes means it: the power is off for certain, then the node is marked out of service.
timers compressed
nodes n1 n2 in zone-a
nodes n3 in zone-b
statefulset db replicas 1 volume RWO

at 2s   power off node of db-0
        expect that node Unknown within 10s
        taint that node out-of-service
        expect volume of db-0 detached from that node within 30s    # pods are collected every 20 s
        expect pod db-0 Ready elsewhere within 10s
        expect disk of db-0 clean
        untaint that node out-of-service
        power on that node
        expect that node Ready within 15s
        expect always disk of db-0 clean for 3s
