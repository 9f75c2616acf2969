# A node that recovers while somebody else holds its lock: the status is cleaned, the lock is left alone.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 1 after 3s with foo

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 5s
        lock n1 held by node-maintenance for 1h
        wait 10s
        report Ready True on n1
        expect no remediation of n1 within 1s
        expect check workers lists 0 nodes within 1s
        expect always lock n1 held by node-maintenance for 20s
