# The kubelet is silent and its database writes on. The machine is switched off, that is proved, and the database runs
# elsewhere a few seconds later, on a clean disk. Then the node comes back as it was.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
operator
template power
check workers max-unhealthy 49% after 2s with power

at 2s   hang node of db-0
        expect remediation of that node by power within 10s
        expect never pod db-0 Terminating for 2s          # nothing is touched before the proof
        expect proof that node A within 5s
        expect machine that node off
        expect pod db-0 Ready elsewhere within 10s
        expect disk of db-0 clean
        expect machine that node on within 10s
        expect that node Ready within 15s
        expect incident that node Closed says "the node is back" within 2s
        expect no remediation of that node within 2s
        expect no trace on that node within 2s
        expect remediations of that node so far 1
        expect always disk of db-0 clean for 3s
