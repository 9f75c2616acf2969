# A remediator is uninstalled and installed again: the check says that its kind is missing, and heals by itself.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 1 after 3s with foo

at 2s   expect check workers Enabled
        delete crd foo
        expect check workers Disabled within 5s
        expect check workers says "CRD" within 10s
        report Ready False on n1
        wait 10s
        install crd foo
        create template foo
        expect remediation of n1 by foo within 10s
        expect check workers Remediating within 1s
        report Ready True on n1
        expect no remediation of n1 within 1s
