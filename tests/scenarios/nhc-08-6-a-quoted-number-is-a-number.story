# A limit written as "1" means one.
# Upstream: it is accepted, and then fails when it is needed: nothing is ever remediated.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers maxUnhealthy="1" after 3s with foo

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 5s
        report Ready False on n2
        expect never remediation of n2 for 10s
        expect check workers healthy 1 of 3
