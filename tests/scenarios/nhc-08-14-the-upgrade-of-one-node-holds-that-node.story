# A pipeline that upgrades n1 says so on n1; n2, which fails at the same time, is remediated.
# Upstream: any upgrade anywhere holds every node of every check.
timers compressed
nodes n1 n2 n3 n4 n5
operator
template foo
check workers max-unhealthy 2 after 3s with foo

at 2s   announce upgrade of n1 for 60s
        report Ready False on n1
        report Ready False on n2
        expect remediation of n2 by foo within 5s
        expect never remediation of n1 for 50s
        expect check workers lists n1
        expect remediation of n1 by foo within 12s    # the time that was announced is over
