# The main path: a node dies, is remediated when it has been unknown for long enough, and its remediation goes with the
# trouble. Upstream does the same, a second or more later at every turn.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 49% after 5s with foo

at 2s   expect check workers Enabled
        expect check workers healthy 3 of 3
        power off n1
        expect n1 Unknown within 10s
        expect never remediation of n1 for 3s
        expect remediation of n1 by foo within 3s
        expect check workers Remediating within 1s
        expect check workers healthy 2 of 3
        expect check workers lists n1
        expect lock n1 held by NodeHealthCheck-workers
        expect event RemediationCreated about workers within 1s
        expect no remediation of n2
        remediator foo finishes n1
        expect always remediation of n1 by foo for 5s    # whatever it says: the node is not well yet
        power on n1
        expect n1 Ready within 15s
        expect no remediation of n1 within 1s
        expect check workers Enabled within 1s
        expect check workers healthy 3 of 3
        expect lock n1 free within 1s
        expect event RemediationRemoved about workers within 1s
        expect remediations of n1 so far 1
