# A node is excluded in the middle of its escalation: what is there stays, the next step waits.
timers compressed
nodes n1 n2 n3
operator
template foo
template bar
check workers max-unhealthy 1 after 3s escalates foo 60s then bar 60s

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 5s
        label n1 remediation.medik8s.io/exclude-from-remediation=true
        expect never remediation of n1 by bar for 3m
        expect remediation of n1 by foo
        unlabel n1 remediation.medik8s.io/exclude-from-remediation
        expect remediation of n1 by bar within 2s
