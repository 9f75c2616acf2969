# Most nodes fall silent at once: that is more likely the network or ourselves than all of them, so nothing is begun.
# When enough are heard again, that has to last for half a minute first: the others may only be late.
timers compressed
nodes n1 n2 n3 n4 n5
operator
template foo
check workers max-unhealthy 100% after 5s with foo

at 2s   partition n1
        partition n2
        partition n3
        expect n3 Unknown within 12s
        expect check workers lists 3 nodes within 7s
        expect never remediation of n1 for 60s
        expect remediations 0
        expect check workers says "heartbeats"
        heal n3
        expect n3 Ready within 10s
        expect never remediation of n1 for 15s
        expect remediation of n1 by foo within 30s
        expect remediation of n2 by foo within 1s
        expect no remediation of n3
