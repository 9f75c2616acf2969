# A template that makes no sense disables the check; mending it is all that is needed.
# Upstream: a template that was broken from the beginning is not watched, so the check stays disabled until something
# else happens.
timers compressed
nodes n1 n2 n3
operator
template foo broken
check workers max-unhealthy 1 after 3s with foo

at 2s   expect check workers Disabled
        expect condition Disabled of check workers True
        expect event Disabled about workers
        report Ready False on n1
        expect never remediation of n1 for 30s
        mend template foo
        expect check workers Remediating within 2s
        expect remediation of n1 by foo
        expect condition Disabled of check workers False
        expect event Enabled about workers
