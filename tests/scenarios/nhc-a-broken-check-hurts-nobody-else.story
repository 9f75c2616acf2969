# One check names a kind that nobody has, another one no namespace; the third works.
timers compressed
nodes n1 n2 n3
operator
template foo
check stranger after 3s remediationTemplate={"apiVersion":"nope.example.com/v1","kind":"NopeTemplate","namespace":"x","name":"x"}
check nowhere after 3s remediationTemplate={"apiVersion":"test.defib.dev/v1alpha1","kind":"FooRemediationTemplate","name":"foo"}
check workers max-unhealthy 1 after 3s with foo

at 2s   expect check stranger Disabled
        expect check stranger says "failed to get"
        expect check stranger says "NopeTemplate"
        expect check nowhere Disabled
        expect check nowhere says "no namespace is provided"
        report Ready False on n1
        expect remediation of n1 by foo within 5s
        expect check workers Remediating within 1s
        expect remediations 1
        report Ready True on n1
        expect no remediation of n1 within 1s
