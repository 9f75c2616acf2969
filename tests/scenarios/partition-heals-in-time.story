# A node that was cut off for a while comes back before the toleration is over: nothing moved, nothing is lost.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
deployment web replicas 3

at 2s   partition node of db-0
        expect that node Unknown within 10s
        wait 3s
        heal that node
        expect that node Ready within 5s
        expect never pod db-0 Terminating for 15s
        expect pods web Ready 3
        expect disk of db-0 clean
