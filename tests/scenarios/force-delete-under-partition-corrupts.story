# What somebody does at three in the morning: the node looks dead, so the pod is deleted by force. The node is only cut
# off. Kubernetes waits for the volume to be unmounted, gives up waiting, and two databases write to one disk.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO

at 2s   partition node of db-0
        expect that node Unknown within 10s
        force delete pod db-0
        expect pod db-0 Pending elsewhere within 5s
        expect event FailedAttachVolume about db-0 within 10s
        expect disk of db-0 clean
        expect pod db-0 Ready elsewhere within 30s
        expect disk of db-0 corrupt within 2s
