# What does not change is not told again.
# Upstream: every look at the check tells again that nodes are unhealthy and that nothing is done about it.
timers default
nodes n1 n2 n3
operator with resync 10s
template foo
check workers max-unhealthy 1 after 3s with foo

at 2s   report Ready False on n1
        report Ready False on n2
        expect event RemediationSkipped within 5s
        wait 5m
        label n3 unrelated=1
        report Ready False on n3    # for too short a time to mean anything, but the check must look again
        wait 1s
        report Ready True on n3
        wait 10s
        restart operator
        wait 5m
        expect event RemediationSkipped times 1
        expect event DetectedUnhealthy times 2
        expect remediations 0
