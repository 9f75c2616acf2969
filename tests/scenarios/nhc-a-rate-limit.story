# At most so many new remediations in a time, also across a restart.
timers default
nodes n1 n2 n3 n4 n5
operator
template foo
check workers max-unhealthy 4 after 3s guards.rateLimit={"remediations":1,"per":"2m"} with foo

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 5s
        report Ready True on n1
        expect no remediation of n1 within 1s
        report Ready False on n2
        restart operator
        expect never remediation of n2 for 1m45s
        expect check workers says "2m"
        expect remediation of n2 by foo within 20s
        expect remediations of n1 so far 1
