# The operator dies and comes back in the middle of an escalation: nothing is lost, nothing begins anew.
# Upstream: the next leader needs fifteen seconds and more to begin, because the dead one never let go.
timers compressed
nodes n1 n2 n3
operator
template foo
template bar
check workers max-unhealthy 1 after 5s escalates foo 60s then bar 60s

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 7s
        wait 30s
        restart operator
        expect never remediation of n1 by bar for 28s
        restart operator
        expect remediation of n1 by bar within 4s
        expect remediation of n1 by foo timed out within 1s
        stop operator
        report Ready True on n1
        wait 10s
        expect remediations of n1 2
        start operator
        expect no remediation of n1 within 1s
        expect lock n1 free within 1s
        expect check workers healthy 3 of 3 within 1s
        expect remediations of n1 so far 2
