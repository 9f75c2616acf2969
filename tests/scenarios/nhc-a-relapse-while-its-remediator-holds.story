# A node relapses while its old remediation is on its way out: a new one is made when the old one is gone, not before.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 1 after 3s with foo

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 5s
        remediator foo holds n1
        report Ready True on n1
        expect remediation of n1 ending within 1s
        report Ready False on n1
        expect always remediations of n1 1 for 20s
        expect remediations of n1 so far 1
        expect check workers lists n1
        expect lock n1 held by NodeHealthCheck-workers
        remediator foo lets go n1
        expect remediations of n1 so far 2 within 1s
        expect remediation of n1 by foo
        expect check workers Remediating within 1s
