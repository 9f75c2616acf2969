# A node that gains the label of a check's selector is counted and looked after from then on.
timers compressed
nodes n1 n2 n3
operator
template foo
check gpu selects pool=gpu max-unhealthy 1 after 3s with foo

at 2s   expect check gpu healthy 0 of 0
        label n1 pool=gpu
        label n2 pool=gpu
        label n3 pool=gpu
        expect check gpu healthy 3 of 3 within 1s
        unlabel n3 pool
        expect check gpu healthy 2 of 2 within 1s
        report Ready False on n3
        report Ready False on n1
        expect remediation of n1 by foo within 5s
        expect never remediation of n3 for 10s
        label n3 pool=gpu
        expect check gpu healthy 1 of 3 within 1s
