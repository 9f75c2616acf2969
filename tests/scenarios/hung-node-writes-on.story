# A kubelet that hangs looks like a dead node, and its containers write on: only power off is proof.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO

at 2s   hang node of db-0
        expect that node Unknown within 10s
        taint that node out-of-service
        force delete pod db-0
        expect pod db-0 Ready elsewhere within 15s
        expect disk of db-0 corrupt within 2s
