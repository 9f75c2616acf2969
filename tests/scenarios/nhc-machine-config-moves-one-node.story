# The Machine Config Operator takes n1 down on purpose; n2, which fails at the same time, is not its business.
# Upstream: one such node among the unhealthy ones holds all of them.
timers compressed
nodes n1 n2 n3 n4 n5
operator
template foo
check workers max-unhealthy 2 after 3s with foo

at 2s   annotate n1 machineconfiguration.openshift.io/currentConfig=old
        annotate n1 machineconfiguration.openshift.io/desiredConfig=new
        report Ready False on n1
        report Ready False on n2
        expect remediation of n2 by foo within 5s
        expect never remediation of n1 for 60s
        annotate n1 machineconfiguration.openshift.io/currentConfig=new
        expect remediation of n1 by foo within 1s
