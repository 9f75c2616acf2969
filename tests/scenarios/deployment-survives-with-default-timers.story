# The same with the timers that Kubernetes has: most of a minute until anybody knows, and five more until anybody acts.
timers default
nodes n1 n2 n3
deployment web replicas 3

at 10s  power off node of web
        expect never that node Unknown for 35s
        expect that node Unknown within 30s
        expect pods web Ready 2 within 3s
        expect always pods web Ready 2 for 4m50s
        expect pods web Ready 3 elsewhere within 30s
