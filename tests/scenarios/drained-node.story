# A node is emptied in good order: everything moves but what a DaemonSet put there, and the disk changes hands cleanly.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
deployment web replicas 3
daemonset agent

at 2s   drain node of db-0 within 20s
        expect pod db-0 Ready elsewhere within 15s
        expect pods web Ready 3 elsewhere within 10s
        expect pods agent Ready 3
        expect disk of db-0 clean
        uncordon that node
        expect that node Ready
