# A machine that only a person can switch. The person says who they are and that it is off; that is a proof of grade D.
# When it is on again by hand, everything is as before.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
operator
template power power.driver=manual
check workers max-unhealthy 49% after 2s with power

at 2s   hang node of db-0
        expect incident that node NeedsPerson says "defib confirm-down" within 15s
        expect never pod db-0 Ready elsewhere for 30s
        power off that node
        confirm that node off by anna
        expect proof that node D within 2s
        expect pod db-0 Ready elsewhere within 10s
        expect disk of db-0 clean
        power on that node
        expect that node Ready within 15s
        expect incident that node Closed within 3s
        expect no trace on that node within 3s
        expect always disk of db-0 clean for 3s
