# A node that was remediated too often is left to a person until enough time has passed; the others are not.
timers default
nodes n1 n2 n3 n4 n5
operator
template foo
check workers max-unhealthy 2 after 3s guards.flapDamping={"remediations":2,"within":"10m"} with foo

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 5s
        report Ready True on n1
        expect no remediation of n1 within 1s
        report Ready False on n1
        expect remediation of n1 by foo within 5s
        report Ready True on n1
        expect no remediation of n1 within 1s
        report Ready False on n1
        report Ready False on n2
        expect remediation of n2 by foo within 5s
        expect never remediation of n1 for 9m
        expect check workers says "2 times"
        expect remediation of n1 by foo within 2m
        expect remediations of n1 so far 3
