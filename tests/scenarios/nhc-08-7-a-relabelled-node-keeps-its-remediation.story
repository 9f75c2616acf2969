# A node that is moved to another pool while it is being remediated is remediated to the end, by the one who began.
# Upstream: its remediation counts as an orphan and is deleted in the middle of the fencing, if anybody looks at all.
timers default
nodes n1 n2 n3 n4
operator
template foo
template bar
check old selects pool=a max-unhealthy 1 after 3s with foo
check new selects pool=b max-unhealthy 1 after 3s with bar

at 2s   label n1 pool=a
        label n2 pool=a
        label n3 pool=a
        expect check old healthy 3 of 3 within 1s
        report Ready False on n1
        expect remediation of n1 by foo within 5s
        label n1 pool=b
        expect check old healthy 2 of 2 within 1s
        expect always remediation of n1 by foo for 30s
        expect never remediation of n1 by bar for 15m    # two of them must not work on it, however long it takes
        expect lock n1 held by NodeHealthCheck-old
        expect check new lists n1
        report Ready True on n1
        expect no remediation of n1 within 1s
        expect lock n1 free within 1s
        expect check old lists 0 nodes within 1s
        expect check new healthy 1 of 1 within 1s
