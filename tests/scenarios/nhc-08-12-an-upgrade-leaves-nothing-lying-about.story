# While nodes are upgraded nothing new is begun; recovered nodes are cleaned up and the counters are true.
# Upstream: during an upgrade it shows 0 of 0 nodes, and the remediation of a node that is well again stays.
timers compressed
nodes n1 n2 n3 n4 n5
operator
template foo
check workers max-unhealthy 2 after 3s with foo

at 2s   report Ready False on n1
        expect remediation of n1 by foo within 5s
        announce upgrade for 10m
        report Ready False on n2
        expect never remediation of n2 for 30s
        expect condition Upgrading of check workers True
        expect check workers healthy 3 of 5
        report Ready True on n1
        expect no remediation of n1 within 1s
        expect check workers healthy 4 of 5 within 1s
        expect event RemediationSkipped times 1
        end upgrade
        expect remediation of n2 by foo within 1s
        expect condition Upgrading of check workers False within 1s
