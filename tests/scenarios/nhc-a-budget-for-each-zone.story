# Two zones, at most one node at once in each: a failing zone does not use up what the others have.
timers compressed
nodes n1 n2 n3 in zone-a
nodes n4 n5 n6 in zone-b
operator
template foo
check workers max-unhealthy 5 after 3s guards.failureDomains=[{"label":"topology.kubernetes.io/zone","maxInFlight":1}] with foo

at 2s   report Ready False on n1
        wait 2s
        report Ready False on n2
        report Ready False on n4
        expect remediation of n1 by foo within 4s
        expect remediation of n4 by foo within 5s
        expect never remediation of n2 for 30s
        expect check workers says "zone-a"
        report Ready True on n1
        expect remediation of n2 by foo within 2s
        expect remediations 2
