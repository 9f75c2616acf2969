# Any condition of a node can be what makes it unhealthy.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 1 unhealthyConditions=[{"type":"KernelDeadlock","status":"True","duration":"10s"}] with foo

at 2s   report KernelDeadlock False on n1
        report Ready False on n2
        expect never remediation of n2 for 20s
        report KernelDeadlock True on n1
        expect never remediation of n1 for 8s
        expect remediation of n1 by foo within 3s
        report KernelDeadlock False on n1
        expect no remediation of n1 within 1s
