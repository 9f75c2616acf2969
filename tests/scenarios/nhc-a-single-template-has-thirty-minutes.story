# Where there is no next template, an overdue remediation is told to stop and the node's lock is free for a person.
timers default
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 2 after 3s with foo

at 2s   report Ready False on n1
        report Ready False on n2
        expect remediation of n1 by foo within 5s
        expect remediation of n2 by foo within 1s
        remediator foo finishes n2
        remediator foo fails n1    # there is nobody else to try, so it may go on
        wait 29m
        expect lock n1 held by NodeHealthCheck-workers
        expect never remediation of n1 by foo timed out for 50s
        expect remediation of n1 by foo timed out within 15s
        expect lock n1 free within 1s
        expect never remediation of n2 by foo timed out for 60s
        expect remediations of n1 so far 1
