# Whatever a node waits for, it is remediated in the moment that it can be.
# Upstream: after a taken lock it looks again only a minute later, and it adds a second to every wait.
timers compressed
nodes n1 n2 n3 n4 n5
operator
template foo
check workers max-unhealthy 2 after 5s with foo

at 2s   lock n1 held by node-maintenance for 1h
        report Ready False on n1
        expect event RemediationSkipped says "node-maintenance" within 7s
        expect never remediation of n1 for 30s
        release lock n1
        expect remediation of n1 by foo within 0.5s
        expect lock n1 held by NodeHealthCheck-workers
        lock n2 held by node-maintenance for 20s
        report Ready False on n2
        expect never remediation of n2 for 19s
        expect remediation of n2 by foo within 1.5s    # nobody says when a lock runs out
