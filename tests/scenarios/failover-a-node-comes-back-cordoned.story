# A node is lost, somebody cordons it, and it comes back: it is ready, so it is no failed node any more.
timers compressed
nodes n1 n2 n3
deployment web replicas 3
operator
policy web for web

at 2s   hang n1
        expect policy web Moved within 10s
        taint n1 with node.kubernetes.io/unschedulable=NoSchedule
        heal n1
        expect n1 Ready within 10s
        expect policy web Quiet within 60s
