# Somebody else remediates the node already: the check says so, waits, and takes over when that is gone.
# Upstream: it does nothing and says nothing, and takes over only if something else happens to wake it.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 1 after 3s with foo

at 2s   create remediation of n1 by foo
        report Ready False on n1
        expect event RemediationSkipped says "n1" within 5s
        expect check workers says "already"
        expect always remediations of n1 1 for 30s
        delete remediation of n1 by foo
        expect remediation of n1 by foo within 1s
        expect remediations of n1 so far 2
        expect check workers Remediating within 1s
        create template bar    # nothing of the check: nothing happens
        expect event RemediationSkipped times 1
