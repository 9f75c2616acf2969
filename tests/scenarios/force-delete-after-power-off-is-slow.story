# The same after a real loss of power does no harm, but the volume is held back until the wait for unmounting is over.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO

at 2s   power off node of db-0
        expect that node Unknown within 10s
        force delete pod db-0
        expect pod db-0 Pending elsewhere within 5s
        expect never pod db-0 Ready for 8s
        expect pod db-0 Ready elsewhere within 25s
        expect disk of db-0 clean
