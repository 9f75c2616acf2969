# A storm is over when everything is well, so the next single failure is not part of it.
# Upstream: with no unhealthy node left it never looks at the storm again; it stays active, for days, and the next node
# that fails waits for a whole cooldown first.
timers default
nodes n1 n2 n3 n4 n5
operator
template foo
check workers max-unhealthy 1 after 5s storm-cooldown 30s with foo

at 2s   report Ready False on n1
        report Ready False on n2
        report Ready False on n3
        expect condition StormActive of check workers True within 8s
        expect event StormRecoveryStarted about workers within 1s
        expect remediations 0
        report Ready True on n1
        report Ready True on n2
        report Ready True on n3
        expect condition StormActive of check workers False within 35s
        expect condition StormCooldownActive of check workers False
        expect event StormRecoveryEnded about workers within 1s
        wait 5m
        report Ready False on n4
        expect remediation of n4 by foo within 7s
        expect remediations 1
