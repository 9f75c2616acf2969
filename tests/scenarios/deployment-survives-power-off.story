# A node loses power and nobody helps: a Deployment is whole again once its pods' toleration is over.
timers compressed
nodes n1 n2 in zone-a
nodes n3 in zone-b
deployment web replicas 3

at 2s   power off node of web
        expect that node Unknown within 10s
        expect that node tainted unreachable within 3s
        expect pods web Ready 2 within 3s
        expect pods web Terminating 1 within 20s
        expect pods web Ready 3 elsewhere within 5s
        expect always pods web Terminating 1 for 3s     # nobody confirms that the old one has stopped
