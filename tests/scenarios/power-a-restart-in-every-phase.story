# Defib is killed and started anew in every phase of a power cycle. Each time it goes on from what was written down.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
operator
template power
check workers max-unhealthy 49% after 2s with power

at 2s   bmc of node of db-0 answers after 1s
        hang node of db-0
        expect incident that node LookingAtPower within 10s
        restart operator
        expect incident that node PoweringOff within 20s
        restart operator
        expect incident that node FreeingWorkloads within 30s
        restart operator
        expect incident that node PoweringOn within 20s
        restart operator
        expect incident that node WaitingForNode within 20s
        restart operator
        expect incident that node Restoring within 20s
        restart operator
        expect incident that node Closed within 20s
        expect no remediation of that node within 5s
        expect no trace on that node within 5s
        expect pod db-0 Ready elsewhere within 20s
        expect disk of db-0 clean
        expect machine that node on
        expect remediations of that node so far 1
