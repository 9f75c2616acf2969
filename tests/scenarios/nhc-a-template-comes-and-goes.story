# A check may be there before its template; it says what is missing, and works as soon as it is there.
timers compressed
nodes n1 n2 n3
operator
check workers max-unhealthy 1 after 3s with foo

at 2s   expect check workers Disabled
        expect check workers says "failed to get"
        report Ready False on n1
        wait 5s
        expect no remediation of n1
        create template foo
        expect remediation of n1 by foo within 2s
        expect check workers Remediating within 1s
        delete template foo
        expect check workers Disabled within 2s
        expect remediation of n1
        report Ready True on n1
        expect no remediation of n1 within 2s    # what it began, it also ends
        expect check workers healthy 3 of 3 within 1s
        create template foo
        expect check workers Enabled within 2s
