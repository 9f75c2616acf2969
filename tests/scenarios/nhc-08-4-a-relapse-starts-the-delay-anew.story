# A node must be healthy for the whole delay at one go.
# Upstream: the moment of the first recovery is never forgotten, so a flapping node is released early.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 1 after 3s healthy-delay 20s with foo

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 5s
        report Ready True on n1
        expect remediation of n1 annotated remediation.medik8s.io/healthy-delay within 1s
        expect always remediation of n1 for 15s
        report Ready False on n1
        wait 5s
        report Ready True on n1
        expect always remediation of n1 for 18s
        expect check workers lists n1
        expect no remediation of n1 within 4s
        expect check workers healthy 3 of 3 within 1s
        expect remediations of n1 so far 1
