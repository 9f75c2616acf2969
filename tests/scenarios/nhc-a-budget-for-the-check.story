# At most so many at once, however many are unhealthy; the one that has been ill for longest goes first.
timers compressed
nodes n1 n2 n3 n4 n5
operator
template foo
check workers max-unhealthy 4 after 3s guards.maxInFlight=1 with foo

at 2s   report Ready False on n2
        wait 2s
        report Ready False on n1
        report Ready False on n3
        expect remediation of n2 by foo within 4s
        expect never remediation of n1 for 30s
        expect remediations 1
        expect check workers says "at most 1"
        remediator foo holds n2
        report Ready True on n2
        expect never remediation of n1 for 10s
        remediator foo lets go n2
        expect remediation of n1 by foo within 1s
        expect always remediations 1 for 10s
