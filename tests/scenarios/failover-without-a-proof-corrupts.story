# The same node once more, but somebody has said in so many words that no proof is needed. It stands in the status, and
# what it leads to is what it always led to: two databases write to one disk.
timers compressed
nodes n1 n2 n3 n4 n5
statefulset db replicas 1 volume RWO
operator
policy shop for db acceptedProofs=[None] deletion.mode=Force

        expect policy shop proofs "None"
at 2s   partition node of db-0
        expect that node Unknown within 10s
        expect policy shop Moved within 5s
        expect policy shop moved 1
        expect disk of db-0 clean
        expect pod db-0 Ready elsewhere within 40s
        expect disk of db-0 corrupt within 2s
