# What goes wrong with one node does not keep the others from being remediated.
# Upstream: the Machine of n1 is missing, which ends every pass over the check right there.
timers default
nodes n1 n2 n3 n4 n5
operator
openshift
template foo
check workers max-unhealthy 2 after 3s with foo

at 2s   annotate n1 machine.openshift.io/machine=nhc-08-13-one-nodes-trouble-is-its-own/missing
        report Ready False on n1
        wait 2s
        report Ready False on n2
        expect remediation of n2 by foo within 5s
        expect check workers lists n1
        expect check workers says "missing"
        report Ready True on n2
        expect no remediation of n2 within 1s
        wait 10m
        unannotate n1 machine.openshift.io/machine
        expect remediation of n1 by foo within 30s    # what was wrong with it is mended
