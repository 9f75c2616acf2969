# Whoever takes the cooldown away has no storms any more.
# Upstream: the conditions of the last storm stay True for ever.
timers compressed
nodes n1 n2 n3 n4 n5
operator
template foo
check workers max-unhealthy 1 after 5s storm-cooldown 30s with foo

at 2s   report Ready False on n1
        report Ready False on n2
        expect condition StormActive of check workers True within 8s
        edit check workers stormCooldownDuration=null
        expect condition StormActive of check workers False within 1s
        expect never remediation of n1 for 5s    # still too many at once
        report Ready True on n2
        expect remediation of n1 by foo within 1s
