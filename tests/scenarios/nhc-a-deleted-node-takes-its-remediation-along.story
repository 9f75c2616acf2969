# A node is deleted for good, once under our eyes and once while nobody looked: nothing of it is left.
timers compressed
nodes n1 n2 n3 n4 n5
operator
template foo
check workers max-unhealthy 2 after 3s with foo

at 2s   power off n1
        power off n2
        expect remediation of n1 by foo within 14s
        expect remediation of n2 by foo within 2s
        delete node n1
        expect no remediation of n1 within 2s
        expect lock n1 free within 2s
        expect check workers healthy 3 of 4 within 2s
        stop operator
        delete node n2
        wait 10s
        start operator
        expect no remediation of n2 within 2s
        expect lock n2 free within 2s
        expect check workers lists 0 nodes within 2s
        expect check workers healthy 3 of 3 within 1s
