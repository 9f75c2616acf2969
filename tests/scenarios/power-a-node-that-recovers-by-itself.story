# The node is well again before its machine was switched off. Nothing was done that would have to be undone.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
operator
template power
check workers max-unhealthy 49% after 2s with power

at 2s   bmc of node of db-0 answers after 6s
        hang node of db-0
        expect incident that node LookingAtPower within 10s
        heal that node
        expect that node Ready within 3s
        expect incident that node Closed says "deleted" within 10s
        expect never machine that node off for 30s
        expect pod db-0 Ready
        expect no remediation of that node
        expect no trace on that node
        expect disk of db-0 clean
