# Two templates of the same kind follow each other, and then one of another kind.
# Upstream: the second of the same kind is created but never written down, so that it never times out, its check fails
# at every look, and no node after this one is handled.
timers compressed
nodes n1 n2 n3 n4 n5
operator
template foo-first multiple
template foo-second multiple
template bar
check workers max-unhealthy 2 after 5s escalates foo-first 60s then foo-second 60s then bar 60s

at 2s   report Ready False on n1
        expect remediation of n1 by foo-first within 7s
        expect never remediation of n1 by foo-second for 58s
        expect remediation of n1 by foo-second within 4s
        expect remediation of n1 by foo-first timed out within 1s
        report Ready False on n2
        expect remediation of n2 by foo-first within 7s
        expect never remediation of n1 by bar for 50s
        expect remediation of n1 by bar within 7s
        expect remediation of n1 by foo-second timed out within 1s
        expect remediations of n1 3
        expect check workers Remediating
        report Ready True on n1
        report Ready True on n2
        expect no remediation of n1 within 2s
        expect no remediation of n2 within 2s
        expect lock n1 free within 1s
        expect check workers healthy 5 of 5 within 1s
        expect remediations of n1 so far 3
