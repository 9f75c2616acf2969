# One ConfigMap stops every new remediation of every check; what is to be cleaned up still is.
timers compressed
nodes n1 n2 n3 n4 n5
operator
template foo
template bar
check first selects half=one min-healthy 0 after 3s escalates foo 60s then bar 60s
check second selects half=two min-healthy 0 after 3s with bar

at 2s   label n1 half=one
        label n2 half=one
        label n3 half=two
        expect check first healthy 2 of 2 within 1s
        report Ready False on n1
        report Ready False on n2
        expect remediation of n1 by foo within 5s
        expect remediation of n2 by foo within 1s
        brake on
        report Ready False on n3
        expect never remediation of n3 for 30s
        expect check second says "brake"
        report Ready True on n2
        expect no remediation of n2 within 1s
        expect never remediation of n1 by bar for 60s
        brake off
        expect remediation of n3 by bar within 1s
        expect remediation of n1 by bar within 2s
