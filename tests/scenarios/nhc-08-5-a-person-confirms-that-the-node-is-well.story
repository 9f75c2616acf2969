# With a negative delay only a person ends a remediation, and what they wrote on the node is removed.
# Upstream: it may not write to nodes; the removal is refused at every look, and nothing else of the check works then.
timers compressed
nodes n1 n2 n3 n4 n5
operator
template foo
check workers max-unhealthy 2 after 3s healthyDelay=-1s with foo

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 5s
        report Ready True on n1
        expect always remediation of n1 for 60s
        expect check workers says "manually-confirmed-healthy"
        annotate n1 remediation.medik8s.io/manually-confirmed-healthy=yes
        expect no remediation of n1 within 1s
        expect n1 not annotated remediation.medik8s.io/manually-confirmed-healthy within 1s
        expect check workers healthy 5 of 5 within 1s
        report Ready False on n2
        expect remediation of n2 by foo within 5s
