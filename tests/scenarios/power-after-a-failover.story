# First the gentle way: pods that may run twice leave at once, and the database waits for the word of a person. When nobody
# has said anything until the time of that step is up, the machine is switched off, and the database follows.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
deployment web replicas 3
operator
template failover acceptedProofs=[A,D]
template power
check workers max-unhealthy 49% after 2s escalates failover 60s then power 10m

at 2s   hang node of db-0
        expect remediation of that node by failover within 10s
        expect pods web Ready 3 elsewhere within 10s
        expect incident that node NeedsPerson says "defib confirm-down" within 5s
        expect never pod db-0 Ready elsewhere for 30s
        expect machine that node on
        expect remediation of that node by power within 60s
        expect proof that node A within 8s
        expect pod db-0 Ready elsewhere within 10s
        expect disk of db-0 clean
        expect incident that node Closed within 20s
        expect no remediation of that node within 5s
        expect no trace on that node within 5s
