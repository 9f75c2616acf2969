# A lock that somebody else took must not make the check forget its other nodes.
# Upstream: for n1, whose lock is another's, it asks for no further look, and that overwrites the timer of n2, which is
# then not remediated before something else happens in the cluster.
timers compressed
nodes n1 n2 n3 n4 n5
operator
template foo
check workers max-unhealthy 2 after 10s with foo

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 12s
        lock n1 held by node-maintenance for 1h
        wait 2s
        report Ready False on n2
        expect never remediation of n2 for 8s
        expect remediation of n2 by foo within 3s
        expect remediations of n1 so far 1
