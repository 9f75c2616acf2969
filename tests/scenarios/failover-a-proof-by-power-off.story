# The same node, the same policy, and a machine that can be switched off: with that proof the database runs elsewhere, and
# never twice.
timers compressed
nodes n1 n2 n3 n4 n5
statefulset db replicas 1 volume RWO
deployment web replicas 5
operator
policy shop selector={}
template power
check workers max-unhealthy 49% after 2s with power

at 2s   partition node of db-0
        expect that node Unknown within 10s
        expect policy shop WaitingForProof within 2s
        expect pods web Ready 5 elsewhere within 5s
        expect proof that node A within 15s
        expect machine that node off
        expect that node tainted out-of-service within 3s
        expect pod db-0 Ready elsewhere within 10s
        expect disk of db-0 clean
        expect policy shop Moved within 3s
        expect volume of db-0 detached from that node
        heal that node                                     # somebody mends the switch
        expect that node Ready within 20s
        expect policy shop Quiet within 3s
        expect no trace on that node within 5s
        expect always disk of db-0 clean for 3s
