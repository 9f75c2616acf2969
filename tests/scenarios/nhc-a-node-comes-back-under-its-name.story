# A node is deleted while it is remediated, and registers again: it is another node, and begins with a clean slate.
timers compressed
nodes n1 n2 n3
operator
template foo
template bar
check workers max-unhealthy 1 after 3s escalates foo 60s then bar 60s

at 2s   power off n1
        expect remediation of n1 by bar within 80s
        remediator foo holds n1
        delete node n1
        expect check workers healthy 2 of 2 within 2s
        power on n1
        expect n1 Ready within 10s
        expect remediation of n1 ending
        remediator foo lets go n1
        expect no remediation of n1 within 1s
        expect check workers healthy 3 of 3 within 1s
        power off n1
        expect remediation of n1 by foo within 14s    # from the first step on
        expect remediations of n1 so far 3
        expect lock n1 held by NodeHealthCheck-workers
