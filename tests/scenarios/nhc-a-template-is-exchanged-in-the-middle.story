# Somebody got past the guards and gave the check another kind of template while it was at work: nothing is forgotten.
# Upstream: remediations of the kind that is no longer named stay for ever.
timers compressed
nodes n1 n2 n3
operator
template foo
template bar
check workers max-unhealthy 1 after 3s with foo

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 5s
        edit check workers with bar
        wait 10s
        report Ready True on n1
        expect no remediation of n1 within 2s
        expect lock n1 free within 1s
        expect check workers lists 0 nodes within 1s
        expect check workers Enabled
