# As many nodes may be unhealthy as there are, and more: that is no limit, and no mistake.
# Upstream: a number larger than the pool is an error, and nothing is ever remediated.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 10 after 3s with foo

at 2s   report Ready False on n1
        report Ready False on n2
        expect remediation of n1 by foo within 5s
        expect remediation of n2 by foo within 1s
        edit check workers maxUnhealthy=null min-healthy 10
        report Ready False on n3
        expect never remediation of n3 for 20s
        expect check workers says "at least 10"
