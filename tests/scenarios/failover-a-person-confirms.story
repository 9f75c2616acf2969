# A remediation of pods that accepts the word of a person gets it: then the database runs elsewhere.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
deployment web replicas 3
operator
template failover acceptedProofs=[A,B,D]
check workers max-unhealthy 49% after 2s with failover

at 2s   hang node of db-0
        expect remediation of that node by failover within 10s
        expect pods web Ready 3 elsewhere within 10s
        expect incident that node NeedsPerson says "defib confirm-down" within 15s
        expect never pod db-0 Ready elsewhere for 10s
        power off that node
        confirm that node off by anna
        expect proof that node D within 2s
        expect pod db-0 Ready elsewhere within 10s
        expect disk of db-0 clean
        power on that node
        expect that node Ready within 15s
        expect incident that node Closed within 5s
        expect no remediation of that node within 5s
        expect no trace on that node within 5s
        expect always disk of db-0 clean for 3s
