# Nobody would make another one, so a policy that selects it leaves it where it is, and says so.
timers compressed
nodes n1 n2 n3
pod solo
daemonset agent
operator
policy all selector={}

at 2s   power off node of solo
        expect that node Unknown within 10s
        expect policy all says "1 without a controller that would make another one" within 3s
        expect policy all Moved
        expect policy all moved 0
        expect pod solo Running
        expect pods agent Running 3
