# Two checks select the same node with different remediators: the lock of the node lets one of them through.
timers compressed
nodes n1 n2 n3
operator
template foo
template bar
check first max-unhealthy 1 after 3s with foo
check second max-unhealthy 1 after 4s with bar

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 5s
        expect never remediation of n1 by bar for 30s
        expect lock n1 held by NodeHealthCheck-first
        expect check second lists n1
        expect check second says "NodeHealthCheck-first"
        expect check second Enabled
        report Ready True on n1
        expect no remediation of n1 within 1s
        expect check first healthy 3 of 3 within 1s
        expect check second healthy 3 of 3 within 1s
        expect lock n1 free within 1s
