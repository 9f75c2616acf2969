# The next step of an escalation is held back for long: the node is still ours until it is well, and so is its lock.
# Upstream: while paused it renews nothing; the lock runs out and maintenance begins on a node that is being fenced.
timers default
nodes n1 n2 n3
operator
template foo
template bar
check workers max-unhealthy 1 after 3s escalates foo 60s then bar 60s

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 5s
        wait 30s
        pause check workers
        expect always lock n1 held by NodeHealthCheck-workers for 10m
        expect remediations of n1 1
        resume check workers
        expect remediation of n1 by bar within 2s
