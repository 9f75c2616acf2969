# Too many nodes fail: nothing new is begun, but what was begun goes on, with its lock.
# Upstream: the limit also freezes n1 in the middle of its escalation, and lets its lock run out.
timers default
nodes n1 n2 n3 n4 n5
operator
template foo
template bar
check workers max-unhealthy 2 after 5s escalates foo 60s then bar 10m

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 7s
        report Ready False on n2
        report Ready False on n3
        expect never remediation of n2 for 30s
        expect check workers healthy 2 of 5
        expect never remediation of n1 by bar for 28s
        expect remediation of n1 by bar within 4s
        expect remediation of n1 by foo timed out
        wait 9m
        expect lock n1 held by NodeHealthCheck-workers
        expect no remediation of n2
        report Ready True on n1
        expect no remediation of n1 within 1s
        expect remediation of n2 by foo within 1s
        expect remediation of n3 by foo within 1s
