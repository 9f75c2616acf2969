# Where the remediator replaces the machine, the node goes on purpose: the remediation stays until it says it is done.
timers compressed
nodes n1 n2 n3 n4
operator
template foo
check workers min-healthy 2 after 3s with foo

at 2s   power off n1
        expect remediation of n1 by foo within 14s
        remediator foo replaces n1
        delete node n1
        expect n1 gone within 1s
        expect always remediation of n1 for 60s
        remediator foo finishes n1
        expect no remediation of n1 within 1s
        expect check workers lists 0 nodes within 1s
        expect check workers healthy 3 of 3
