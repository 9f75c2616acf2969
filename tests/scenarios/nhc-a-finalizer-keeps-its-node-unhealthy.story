# A node is healthy only when its remediator has let go of it, and only then is there room for another.
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
        report Ready False on n2
        expect never remediation of n2 for 20s
        expect check workers Remediating
        expect check workers healthy 1 of 3
        expect check workers lists n1
        remediator foo lets go n1
        expect no remediation of n1 within 1s
        expect remediation of n2 by foo within 1s
        expect check workers healthy 2 of 3 within 1s
