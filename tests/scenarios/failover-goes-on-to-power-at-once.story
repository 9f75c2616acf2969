# An escalation: pods leave first, and then the machine is switched off. The first step has done all it can when only pods
# are left that need a proof, so the second begins at once and not when the time of the first is up.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
deployment web replicas 3
operator
template failover
template power
check workers max-unhealthy 49% after 2s escalates failover 10m then power 10m

at 2s   hang node of db-0
        expect remediation of that node by failover within 10s
        expect event ProofNeeded says "1 pod that must not run twice waits for a proof of grade A or B" within 3s
        expect remediation of that node by power within 5s
        expect proof that node A within 8s
        expect pod db-0 Ready elsewhere within 10s
        expect pods web Ready 3 elsewhere within 10s
        expect disk of db-0 clean
        expect that node Ready within 25s
        expect no remediation of that node within 5s
        expect no trace on that node within 5s
