# Somebody deletes the remediation of a node that is still unhealthy: the check makes a new one, and counts right.
# Upstream: the status stays as it was, says Remediating for ever, and the check can be neither edited nor deleted.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 1 after 3s with foo

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 5s
        delete remediation of n1 by foo
        expect remediations of n1 so far 2 within 2s
        expect remediation of n1 by foo
        report Ready True on n1
        expect no remediation of n1 within 1s
        expect check workers Enabled within 1s
        expect check workers lists 0 nodes
