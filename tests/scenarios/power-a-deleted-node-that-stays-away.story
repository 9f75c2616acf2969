# The Node is deleted and its machine cannot come back. Kubernetes would keep its volume there until the wait for an
# unmount is over; we know that nothing runs there, and have it detached at once.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
operator
template power deletes-node
check workers max-unhealthy 49% after 2s with power

at 2s   partition node of db-0
        expect never pod db-0 Terminating for 2s          # nothing is touched before the proof
        expect proof that node A within 20s
        expect that node gone within 2s
        expect volume of db-0 detached from that node within 4s
        expect pod db-0 Ready elsewhere within 4s
        expect that node gone
        expect disk of db-0 clean
        heal that node
        expect that node Ready within 20s
        expect incident that node Closed within 5s
        expect no trace on that node within 2s
        expect always disk of db-0 clean for 3s
