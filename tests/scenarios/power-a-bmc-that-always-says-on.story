# The machine goes off, and its BMC says that it is on. There is no proof, so nothing depends on it; and in the end the
# machine is on, and a person knows.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
operator
template power attempts 1 timeouts.powerOff=20s
check workers max-unhealthy 49% after 2s with power

at 2s   bmc of node of db-0 lies on
        hang node of db-0
        expect machine that node off within 15s
        expect incident that node PoweringOff says "still read as on" within 15s
        expect incident that node NeedsPerson within 15s
        expect never proof that node for 1m
        expect machine that node on
        expect pod db-0 Ready within 30s
        expect disk of db-0 clean
