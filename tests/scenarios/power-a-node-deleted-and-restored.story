# Where the policy says so, the Node is deleted instead of tainted. What people had written on it is there again when it
# comes back.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
operator
template power deletes-node
check workers max-unhealthy 49% after 2s with power

at 2s   annotate node of db-0 example.com/rack=7
        label node of db-0 pool=gpu
        hang node of db-0
        expect proof that node A within 20s
        expect that node gone within 5s
        expect never incident that node Cancelling for 2s  # although the check withdraws: it sees the Node gone
        expect pod db-0 Ready elsewhere within 5s
        expect disk of db-0 clean
        expect that node Ready within 20s
        expect that node annotated example.com/rack within 3s
        expect incident that node Closed within 5s
        expect no trace on that node within 2s
        expect always disk of db-0 clean for 3s
