# With a delay, a node must have been healthy for so long before its remediation goes.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 1 after 3s healthy-delay 30s with foo

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 5s
        report Ready True on n1
        expect remediation of n1 annotated remediation.medik8s.io/healthy-delay within 1s
        expect always remediation of n1 for 15s
        restart operator    # which does not make the delay any longer
        expect always remediation of n1 for 13s
        expect check workers healthy 2 of 3
        expect no remediation of n1 within 3s
        expect check workers healthy 3 of 3 within 1s
        expect lock n1 free within 1s
