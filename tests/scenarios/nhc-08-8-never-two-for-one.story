# However often the operator dies at the wrong moment, a node has one remediation, also where names are generated.
# Upstream: whether there is one already is looked up in a cache that may not know it yet, and a generated name never
# collides: a second one is created.
timers compressed
nodes n1 n2 n3 n4 n5
operator
template foo multiple
check workers max-unhealthy 2 after 5s with foo

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 7s
        restart operator
        expect always remediations of n1 1 for 10s
        report Ready False on n2
        wait 4s
        restart operator
        wait 0.5s
        restart operator
        wait 0.5s
        restart operator
        expect remediation of n2 by foo within 3s
        restart operator
        expect always remediations 2 for 30s
        expect remediations of n1 so far 1
        expect remediations of n2 so far 1
