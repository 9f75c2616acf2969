# When the power comes back, the kubelet confirms the end of the old pod, and the database runs again.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO

at 2s   power off node of db-0
        expect pod db-0 Terminating within 25s
        power on that node
        expect that node Ready within 15s
        expect pod db-0 Ready within 15s
        expect disk of db-0 clean
