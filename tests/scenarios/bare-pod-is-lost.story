# A pod that nobody owns is not made again. When its node object goes, so does the last trace of it.
timers compressed
nodes n1 n2 n3
pod solo
deployment web replicas 2

at 2s   power off node of solo
        expect pod solo Terminating within 25s
        expect never pod solo gone for 5s
        delete node that node
        expect that node gone within 3s
        expect pod solo gone within 1m20s
        expect pods web Ready 2 elsewhere within 10s
