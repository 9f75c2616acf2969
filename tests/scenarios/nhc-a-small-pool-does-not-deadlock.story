# With a limit of no unhealthy node at all nothing could ever be mended; an explicit wish lets one be, and only one.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 0 after 3s with foo

at 2s   report Ready False on n1
        expect never remediation of n1 for 20s
        expect check workers says "alwaysAllowOne"
        edit check workers guards.alwaysAllowOne=true
        expect remediation of n1 by foo within 1s
        report Ready False on n2
        expect never remediation of n2 for 20s
