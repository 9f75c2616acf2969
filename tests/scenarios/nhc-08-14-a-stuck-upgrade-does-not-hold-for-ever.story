# An upgrade that does not end stops counting after a while, loudly.
# Upstream: as long as ClusterVersion says Progressing, nothing is remediated.
timers default
nodes n1 n2 n3
operator with upgrade_limit 5m
openshift
template foo
check workers max-unhealthy 1 after 3s with foo

at 2s   begin cluster upgrade
        report Ready False on n1
        expect never remediation of n1 for 2m
        restart operator
        expect never remediation of n1 for 2m
        expect condition Upgrading of check workers True
        expect event RemediationSkipped times 1
        expect remediation of n1 by foo within 90s
        expect condition UpgradeStuck of check workers True within 1s
        expect event UpgradeStuck about workers within 1s
        finish cluster upgrade
        expect condition UpgradeStuck of check workers False within 2s
        expect remediation of n1 by foo
