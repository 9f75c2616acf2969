# A person's approval ends before the escalation does: the next step waits for another one.
timers compressed
nodes n1 n2 n3
operator
template foo
template bar
check workers max-unhealthy 1 after 3s mode Approve escalates foo 60s then bar 60s

at 2s   report Ready False on n1
        approve n1 for 30s
        expect remediation of n1 by foo within 5s
        expect never remediation of n1 by bar for 2m
        expect check workers says "approv"
        approve n1 for 30s
        expect remediation of n1 by bar within 1s
