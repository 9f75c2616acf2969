# Its BMC told the truth for as long as the node was well, and says off from the moment on in which the node hangs. That
# it was right before spares it nothing: the machine is switched on first, to see whether what is read follows.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
operator with fence_check 10s
template power attempts 1
check workers max-unhealthy 49% after 2s with power

at 25s  bmc of node of db-0 lies off
        hang node of db-0
        expect incident that node TestingPower within 10s
        expect incident that node NeedsPerson says "no proof" within 90s
        expect never proof that node for 30s
        expect disk of db-0 clean
        expect machine that node on
