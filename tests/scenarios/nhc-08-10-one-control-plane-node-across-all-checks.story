# Only one control-plane node at a time, whoever remediates it.
# Upstream: each check sees only the kinds that it uses itself, so two checks take two control-plane nodes.
timers compressed
nodes cp1 cp2 cp3 cp4 cp5 as control-plane
nodes n1 n2
operator
template foo
template bar
check even selects half=even min-healthy 0 after 3s with foo
check odd selects half=odd min-healthy 0 after 3s with bar

at 2s   label cp1 half=odd
        label cp2 half=even
        label n1 half=even
        expect check even healthy 2 of 2 within 1s
        report Ready False on cp1
        expect remediation of cp1 by bar within 5s
        report Ready False on cp2
        report Ready False on n1
        expect remediation of n1 by foo within 5s
        expect never remediation of cp2 for 30s
        expect check even says "cp1"
        expect event RemediationSkipped says "cp2"
        report Ready True on cp1
        expect remediation of cp2 by foo within 2s    # upstream, within one check, looks again after 60 s
