# Below the limit of healthy nodes nothing is begun, and every unhealthy node is named; when it is calmer, all are remediated.
timers compressed
nodes n1 n2 n3 n4 n5
operator
template foo
check workers min-healthy 51% after 3s with foo

at 2s   report Ready False on n1
        report Ready False on n2
        report Ready False on n3
        expect check workers lists 3 nodes within 5s
        expect never remediation of n1 for 30s
        expect remediations 0
        expect check workers Enabled
        expect check workers healthy 2 of 5
        expect check workers says "2 of 5"
        expect condition RemediationAllowed of check workers False
        report Ready True on n3
        expect remediation of n1 by foo within 1s
        expect remediation of n2 by foo within 1s
        expect no remediation of n3
        expect condition RemediationAllowed of check workers True within 1s
