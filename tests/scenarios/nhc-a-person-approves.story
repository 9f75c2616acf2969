# In mode Approve each remediation waits for a person, whose word has an end.
timers compressed
nodes n1 n2 n3 n4 n5
operator
template foo
check workers max-unhealthy 2 after 3s mode Approve with foo

at 2s   approve n1 for 10s
        wait 15s
        report Ready False on n1
        report Ready False on n2
        expect never remediation of n1 for 30s    # that approval is over
        expect check workers says "approv"
        expect event RemediationSkipped says "n2"
        approve n1 for 5m
        expect remediation of n1 by foo within 1s
        expect never remediation of n2 for 10s
        report Ready True on n1
        expect no remediation of n1 within 1s
        expect n1 not annotated defib.dev/approved-until within 1s
