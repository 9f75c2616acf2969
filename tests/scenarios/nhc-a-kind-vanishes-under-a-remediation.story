# A remediator is uninstalled while it is at work, with all that it had; installed again, the node gets a new remediation.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 1 after 3s with foo

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 5s
        delete crd foo
        expect check workers Disabled within 5s
        expect check workers says "CRD" within 15s
        wait 20s
        install crd foo
        create template foo
        expect remediation of n1 by foo within 15s
        expect check workers Remediating within 1s
        expect remediations of n1 so far 2
        report Ready True on n1
        expect no remediation of n1 within 1s
        expect check workers healthy 3 of 3 within 1s
