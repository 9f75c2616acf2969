# The same, when the machine is proved to be down and its workloads are being freed. What was begun is brought to its end:
# the machine is on again, and the taint is gone.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
operator
template power

at 2s   hang node of db-0
        create remediation of that node by power
        expect incident that node FreeingWorkloads within 10s
        delete remediation of that node by power
        expect incident that node Cancelling within 2s
        expect machine that node on within 15s
        expect that node Ready within 15s
        expect incident that node Closed within 5s
        expect no remediation of that node within 2s
        expect no trace on that node within 2s
        expect pod db-0 Ready within 20s
        expect disk of db-0 clean
        expect never that node tainted out-of-service for 20s
