# The brake stops what destroys, also in the middle. What was told to the machine is told; nothing is freed before the
# brake is released, and then it goes on as if nothing had been.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
operator
template power timeouts.powerOff=20s
check workers max-unhealthy 49% after 2s with power

at 2s   hang node of db-0
        expect incident that node PoweringOff within 10s
        brake on
        expect incident that node PoweringOff says "brake" within 2s
        expect never proof that node for 1m
        expect never pod db-0 Ready elsewhere for 5s
        brake off
        expect proof that node A within 8s
        expect pod db-0 Ready elsewhere within 10s
        expect incident that node Closed within 20s
        expect no trace on that node within 2s
        expect disk of db-0 clean
