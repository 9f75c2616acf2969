# With nobody to help, a database never leaves a node without power: its pod is told to go, and nobody confirms it.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO

at 2s   power off node of db-0
        expect that node Unknown within 10s
        expect pod db-0 Terminating within 20s
        expect never pod db-0 Running elsewhere for 10s
        expect volume of db-0 attached to that node
        expect disk of db-0 clean
