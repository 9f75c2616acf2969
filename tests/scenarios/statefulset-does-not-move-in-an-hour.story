# Nor does it with the timers that Kubernetes has, in a whole hour.
timers default
nodes n1 n2 n3
statefulset db replicas 1 volume RWO

at 10s  power off node of db-0
        expect that node Unknown within 1m10s
        expect pod db-0 Terminating within 5m10s
        expect never pod db-0 Running elsewhere for 60m
        expect volume of db-0 attached to that node
