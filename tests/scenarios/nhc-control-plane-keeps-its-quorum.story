# Two of three control-plane nodes fail on plain Kubernetes: to take one of them down could be the end of etcd.
# Upstream: off OpenShift nobody counts.
timers compressed
nodes cp1 cp2 cp3 as control-plane
nodes n1 n2 n3
operator
template foo
check all min-healthy 1 after 3s with foo

at 2s   report Ready False on cp1
        report Ready False on cp2
        report Ready False on n1
        expect remediation of n1 by foo within 5s
        expect never remediation of cp1 for 30s
        expect no remediation of cp2
        expect check all says "etcd"
        report Ready True on cp2
        expect remediation of cp1 by foo within 2s
