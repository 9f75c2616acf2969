# A node that comes back half is not well: its remediation stays, and goes only when the node is ready.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 1 after 20s with foo

at 2s   report Ready False on n1
        hang n1
        expect n1 Unknown within 10s
        expect remediation of n1 by foo within 25s
        heal n1
        expect n1 NotReady within 3s
        expect always remediation of n1 for 40s
        expect remediations of n1 so far 1
        report Ready True on n1
        expect no remediation of n1 within 1s
