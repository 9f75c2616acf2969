# The power was gone, and came back because we tried whether it would. The node is well a moment after it was told to go
# off again; it is told to go on, and its incident is not closed before it is.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
operator
template power
check workers max-unhealthy 49% after 2s with power

at 2s   stop operator
        power off node of db-0
        wait 6s
        start operator
        expect incident that node TestingPower within 10s
        expect machine that node on within 5s
        expect incident that node Closed within 2m
        expect always machine that node on for 30s
        expect that node Ready
        expect remediations of that node so far 1
        expect no trace on that node
        expect disk of db-0 clean
