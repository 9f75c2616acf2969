# A BMC that has never said anything but off proves nothing, however often it says so. The database stays where it
# writes, a person is told, and the disk stays clean.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
operator
template power attempts 1 timeouts.powerOff=20s timeouts.powerOn=20s
check workers max-unhealthy 49% after 2s with power

at 2s   stop operator
        bmc of node of db-0 lies off
        start operator
        hang node of db-0
        expect incident that node TestingPower within 15s
        expect incident that node TestingPower says "no proof" within 8s
        expect incident that node NeedsPerson says "no proof" within 20s
        expect never proof that node for 1m
        expect never that node tainted out-of-service for 20s
        expect never pod db-0 Ready elsewhere for 20s
        expect machine that node on
        expect disk of db-0 clean
