# A policy that asks for it also takes a taint for a failure. The kubelet is alive, so pods leave in good order, those with
# data as well: no proof is needed, since nothing runs twice. What is only not preferred stays.
timers compressed
nodes n1 n2 n3
deployment web replicas 3
statefulset db replicas 3 volume RWO
operator
policy all taints=["*"]

at 2s   expect policy all Quiet
        taint n2 with example.com/soon=PreferNoSchedule
        taint n1 with example.com/drain=NoSchedule
        expect policy all lists n1 within 3s
        expect policy all Moved within 3s
        expect pods web Ready 3 within 20s
        expect pods db Ready 3 within 20s
        expect n1 Ready
        expect never policy all lists n2 for 2s
        expect disk of db-0 clean
        expect disk of db-1 clean
        expect disk of db-2 clean
        untaint n1 from example.com/drain
        expect policy all Quiet within 5s
