# After a storm it must be calm for the whole cooldown; a second storm begins it anew; then what still waits is done.
timers compressed
nodes n1 n2 n3 n4 n5
operator
template foo
check workers max-unhealthy 2 after 3s storm-cooldown 60s with foo

at 2s   report Ready False on n1
        report Ready False on n2
        report Ready False on n3
        expect condition StormActive of check workers True within 5s
        report Ready True on n3
        expect condition StormCooldownActive of check workers True within 1s
        expect event StormRecoveryCooldownStarted times 1 within 1s
        expect never remediation of n1 for 40s
        report Ready False on n3
        expect condition StormCooldownActive of check workers False within 5s
        report Ready True on n3
        expect condition StormCooldownActive of check workers True within 1s
        expect never remediation of n1 for 30s
        restart operator    # which does not make the cooldown any longer
        expect never remediation of n1 for 28s
        expect remediation of n1 by foo within 4s
        expect remediation of n2 by foo within 1s
        expect condition StormActive of check workers False within 1s
        expect event StormRecoveryEnded times 1 within 1s
        expect event StormRecoveryCooldownStarted times 2
