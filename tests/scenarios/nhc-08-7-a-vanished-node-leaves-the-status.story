# A node that was unhealthy, not remediated, and is deleted is not spoken of any more.
# Upstream: its entry stays in the status for ever.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 1 after 3s with foo

at 2s   label n1 remediation.medik8s.io/exclude-from-remediation=true
        power off n1
        expect check workers lists n1 within 12s
        expect check workers healthy 2 of 3
        delete node n1
        expect check workers lists 0 nodes within 1s
        expect check workers healthy 2 of 2
        expect remediations of n1 so far 0
