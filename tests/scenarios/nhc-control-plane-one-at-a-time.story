# Two control-plane nodes and a worker fail: the worker and one of the two are remediated; the other follows in its turn.
timers compressed
nodes cp1 cp2 cp3 cp4 cp5 as control-plane
nodes n1 n2 n3
operator
template foo
check all min-healthy 1 after 3s with foo

at 2s   report Ready False on cp1
        wait 1s
        report Ready False on cp2
        report Ready False on n1
        expect remediation of cp1 by foo within 5s
        expect remediation of n1 by foo within 3s
        expect never remediation of cp2 for 30s
        expect event RemediationSkipped says "cp2"
        expect event RemediationSkipped times 1
        remediator foo holds cp1
        report Ready True on cp1
        expect never remediation of cp2 for 10s    # the first is not let go yet
        remediator foo lets go cp1
        expect remediation of cp2 by foo within 1s
