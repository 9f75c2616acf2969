# Five nodes, and one line of policy: the pods of one application leave a node that is lost, long before Kubernetes would
# move them. Whatever the policy does not name stays as it is, and so does everything on the other nodes.
timers compressed
nodes n1 n2 n3 n4 n5
deployment noobaa replicas 10
deployment web replicas 10
operator
policy noobaa for noobaa

at 2s   power off node of noobaa
        expect that node Unknown within 10s
        expect policy noobaa lists that node within 1s
        expect pods noobaa Ready 10 elsewhere within 3s
        expect policy noobaa Moved within 2s
        expect event PodsMoved about noobaa
        expect pods web Terminating 0
        expect pods web Running 10
        power on that node
        expect that node Ready within 15s
        expect policy noobaa Quiet within 3s
