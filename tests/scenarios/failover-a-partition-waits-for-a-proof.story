# A node is only cut off, and its database writes on. The policy names the database too, but nothing proves that the node
# is down: what may run twice leaves, the database waits, and everybody can read for what. When the node is back, so is
# the database.
timers compressed
nodes n1 n2 n3 n4 n5
statefulset db replicas 1 volume RWO
deployment web replicas 5
operator
policy shop selector={}

at 2s   partition node of db-0
        expect that node Unknown within 10s
        expect pods web Ready 5 elsewhere within 5s
        expect policy shop WaitingForProof within 3s
        expect policy shop waiting 1
        expect policy shop proofs "A or B"
        expect policy shop says "1 pod that must not run twice waits for a proof of grade A or B"
        expect event WaitingForProof about shop within 2s
        expect never pod db-0 Ready elsewhere for 30s
        expect volume of db-0 attached to that node
        expect disk of db-0 clean
        heal that node
        expect that node Ready within 10s
        expect policy shop Quiet within 3s
        expect pod db-0 Ready within 20s
        expect always disk of db-0 clean for 3s
