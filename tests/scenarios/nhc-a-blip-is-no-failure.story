# A node that is not ready again and again, each time for less than it takes, is never touched.
timers compressed
nodes n1 n2 n3
operator
template foo
check workers max-unhealthy 1 after 10s with foo

at 2s   report Ready False on n1
        expect check workers healthy 2 of 3 within 1s
        wait 8s
        report Ready True on n1
        expect check workers healthy 3 of 3 within 1s
        report Ready False on n1
        wait 8s
        report Ready True on n1
        expect n1 Ready within 1s
        report Ready False on n1
        wait 8s
        report Ready True on n1
        wait 60s
        expect remediations of n1 so far 0
        expect check workers lists 0 nodes
        expect event DetectedUnhealthy times 0
