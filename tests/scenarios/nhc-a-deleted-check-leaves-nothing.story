# A check is deleted in the middle of a remediation: what it owned goes with it, its lock too, and nobody begins anew.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 1 after 3s with foo

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 5s
        delete check workers
        expect no remediation of n1 within 5s
        expect never remediation of n1 for 30s
        expect lock n1 free    # else maintenance would wait for somebody who does not exist
