# When everything has been tried a person is told, once, and what was begun stays until the node is well.
timers default
nodes n1 n2 n3
operator with resync 10s
template foo
template bar
check workers max-unhealthy 1 after 3s escalates foo 60s then bar 60s

at 2s   report Ready False on n1
        expect remediation of n1 by bar within 70s
        expect event NoTemplateLeft about workers within 65s
        expect remediation of n1 by bar timed out
        wait 10m
        report Ready False on n2
        wait 1s
        report Ready True on n2
        wait 1m
        expect event NoTemplateLeft times 1
        expect remediations of n1 2
        expect check workers Remediating
        report Ready True on n1
        expect no remediation of n1 within 1s
        expect check workers healthy 3 of 3 within 1s
        report Ready False on n1
        expect remediation of n1 by foo within 5s    # a new trouble begins with the first
