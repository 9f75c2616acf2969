# A node with the label is named and left alone; any other value of the label means nothing.
timers compressed
nodes n1 n2 n3 n4 n5
operator
template foo
check workers max-unhealthy 3 after 3s with foo

at 2s   label n1 remediation.medik8s.io/exclude-from-remediation=true
        label n2 remediation.medik8s.io/exclude-from-remediation=false
        label n3 remediation.medik8s.io/exclude-from-remediation=
        report Ready False on n1
        report Ready False on n2
        report Ready False on n3
        expect remediation of n2 by foo within 5s
        expect remediation of n3 by foo within 1s
        expect event InvalidNodeLabel says "n3" within 1s
        expect never remediation of n1 for 30s
        expect check workers lists n1
        expect event RemediationSkipped says "n1"
        unlabel n1 remediation.medik8s.io/exclude-from-remediation
        expect remediation of n1 by foo within 1s
        label n1 remediation.medik8s.io/exclude-from-remediation=true
        expect always remediation of n1 for 10s    # what was begun is neither torn down nor driven on
        report Ready True on n1
        expect no remediation of n1 within 1s
