# A slow node is not a dead node.
timers compressed
nodes n1 n2 n3
deployment web replicas 3

at 2s   slow n1 by 2s
        expect always n1 Ready for 30s
        heal n1
        expect always pods web Ready 3 for 5s
