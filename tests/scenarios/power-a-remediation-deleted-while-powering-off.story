# A person asks for a power cycle and takes it back when the machine has just gone off, and nobody has proved it yet. The
# machine ends on, and nothing else was done.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
operator
template power

at 2s   hang node of db-0
        create remediation of that node by power
        expect incident that node PoweringOff within 3s
        expect machine that node off within 5s
        delete remediation of that node by power
        expect incident that node Cancelling within 2s
        expect never that node tainted out-of-service for 10s
        expect incident that node Closed within 40s
        expect always machine that node on for 20s
        expect no remediation of that node
        expect no trace on that node
        expect pod db-0 Ready
        expect disk of db-0 clean
