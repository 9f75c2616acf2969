# The trouble changes shortly before the time of the first remediator is over: the next one waits until it is certain.
timers compressed
nodes n1 n2 n3
operator
template foo
template bar
check workers max-unhealthy 1 after 30s escalates foo 60s then bar 60s

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 32s
        wait 50s
        hang n1
        expect n1 Unknown within 8s
        expect never remediation of n1 by bar for 28s
        expect remediation of n1 by bar within 5s
