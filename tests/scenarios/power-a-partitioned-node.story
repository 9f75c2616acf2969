# Nobody reaches the node, but its BMC is on another network. What runs there is stopped before it runs elsewhere.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
deployment web replicas 3
operator
template power
check workers max-unhealthy 49% after 2s with power

at 2s   partition node of db-0
        expect remediation of that node by power within 10s
        expect proof that node A within 8s
        expect machine that node off
        expect pod db-0 Ready elsewhere within 10s
        expect disk of db-0 clean
        expect pods web Ready 3 within 10s
        heal that node                                     # somebody mends the switch
        expect that node Ready within 15s
        expect no trace on that node within 5s
        expect remediations of that node so far 1
        expect always disk of db-0 clean for 3s
