# A remediator that says it has failed makes room for the next at once; one that says it has succeeded has its time.
timers default
nodes n1 n2 n3 n4 n5
operator
template foo
template bar
check workers max-unhealthy 2 after 3s escalates foo 5m then bar 5m

at 2s   report Ready False on n1
        report Ready False on n2
        expect remediation of n1 by foo within 5s
        expect remediation of n2 by foo within 1s
        remediator foo finishes n2
        wait 10s
        remediator foo fails n1
        expect remediation of n1 by bar within 2s
        expect remediation of n1 by foo timed out
        expect never remediation of n2 by bar for 4m
        expect remediation of n2 by bar within 60s
        expect never remediation of n2 by foo timed out for 5s    # it did what it could: nobody tells it to stop
        expect remediations of n2 2
