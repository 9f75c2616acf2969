# A BMC says yes to the first commands and does nothing about them. It is told again until what is read changes.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
operator
template power
check workers max-unhealthy 49% after 2s with power

at 2s   bmc of node of db-0 ignores 2 commands
        hang node of db-0
        expect incident that node PoweringOff within 10s
        expect never proof that node for 15s
        expect machine that node on
        expect machine that node off within 15s
        expect proof that node A within 5s
        expect pod db-0 Ready elsewhere within 10s
        expect incident that node Closed within 20s
        expect no trace on that node within 2s
        expect disk of db-0 clean
