# In mode Observe everything is decided and said, and nothing is done; switched to Automatic, it is.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 1 after 3s mode Observe with foo

at 2s   report Ready False on n1
        expect check workers lists n1 within 5s
        expect never remediation of n1 for 30s
        expect check workers says "Observe"
        expect check workers healthy 2 of 3
        expect lock n1 free
        edit check workers mode Automatic
        expect remediation of n1 by foo within 1s
        edit check workers mode Observe
        report Ready True on n1
        expect always remediation of n1 for 10s    # it writes nothing but its status, so somebody else must clean up
        edit check workers mode Automatic
        expect no remediation of n1 within 1s
