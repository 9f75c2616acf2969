# A paused check begins nothing, but it cleans up, counts, and keeps its locks.
# Upstream: while paused it shows 0 of 0 nodes, and the remediation of a node that is well again stays.
timers default
nodes n1 n2 n3 n4 n5
operator
template foo
check workers max-unhealthy 2 after 3s with foo

at 2s   report Ready False on n1
        report Ready False on n2
        expect remediation of n1 by foo within 5s
        expect remediation of n2 by foo within 1s
        pause check workers
        expect check workers Paused within 1s
        expect check workers healthy 3 of 5
        report Ready True on n1
        expect no remediation of n1 within 1s
        expect lock n1 free within 1s
        expect check workers healthy 4 of 5 within 1s
        report Ready False on n3
        wait 12m    # the lock of a remediation lasts for eleven minutes
        expect lock n2 held by NodeHealthCheck-workers
        expect no remediation of n3
        expect check workers healthy 3 of 5
        resume check workers
        expect remediation of n3 by foo within 1s
        expect check workers Remediating within 1s
