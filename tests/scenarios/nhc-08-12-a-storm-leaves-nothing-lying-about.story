# In a storm nothing new is begun, but a node that is well again is cleaned up and an escalation goes on.
# Upstream: the storm freezes the escalation of n1; a lock that is not renewed runs out.
timers default
nodes n1 n2 n3 n4 n5
operator
template foo
template bar
check workers max-unhealthy 2 after 3s storm-cooldown 5m escalates foo 60s then bar 10m

at 2s   report Ready False on n1
        report Ready False on n4
        expect remediation of n1 by foo within 5s
        expect remediation of n4 by foo within 1s
        report Ready False on n2
        expect condition StormActive of check workers True within 5s
        report Ready True on n4
        expect no remediation of n4 within 1s
        expect condition StormCooldownActive of check workers True within 1s
        expect never remediation of n2 for 50s
        expect remediation of n1 by bar within 10s
        expect condition StormActive of check workers True
        expect remediation of n2 by foo within 5m
        expect condition StormActive of check workers False
