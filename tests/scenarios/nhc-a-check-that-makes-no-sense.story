# A check without a template slipped in: it is never acted on, it says what is wrong, and a mended one works.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 1 after 3s

at 2s   expect check workers Disabled
        expect check workers says "remediationTemplate"
        report Ready False on n1
        expect never remediation of n1 for 20s
        edit check workers with foo
        expect remediation of n1 by foo within 2s
        expect check workers Remediating within 1s
