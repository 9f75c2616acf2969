# Two who would fight over the same nodes: ours steps back, and comes back when the other is gone.
# Upstream: whether there is another is kept in a field without a lock, and whoever waits for the news may wait for ever.
timers compressed
nodes n1 n2 n3
operator
openshift
template foo
check workers max-unhealthy 1 after 3s with foo

at 2s   expect check workers Enabled
        create machine-health-check other
        expect check workers Disabled within 1s
        expect check workers says "MachineHealthCheck"
        report Ready False on n1
        expect never remediation of n1 for 30s
        delete machine-health-check other
        expect remediation of n1 by foo within 1s
        expect check workers Remediating within 1s
        create machine-health-check other
        expect check workers Disabled within 1s
        report Ready True on n1
        expect no remediation of n1 within 1s    # cleaning up is not remediating
        delete machine-health-check other
        expect check workers Enabled within 1s
