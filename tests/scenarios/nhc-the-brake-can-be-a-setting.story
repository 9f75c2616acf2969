# Defib may be started with its brake on: it sees and says everything, and begins nothing.
timers compressed
nodes n1 n2 n3
operator with brake on
template foo
check workers max-unhealthy 1 after 3s with foo

at 2s   report Ready False on n1
        expect check workers lists n1 within 5s
        expect never remediation of n1 for 60s
        expect check workers says "brake"
        expect check workers healthy 2 of 3
        report Ready True on n1
        expect check workers healthy 3 of 3 within 1s
