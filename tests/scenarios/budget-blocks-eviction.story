# A disruption budget has the last word on an eviction, and a lost node uses it up.
timers compressed
nodes n1 n2 n3
statefulset web replicas 3
budget web min-available 2

at 2s   power off node of web-0
        expect that node Unknown within 10s
        expect pods web Ready 2 within 3s
        evict pod web-1
        expect eviction blocked
        power on that node
        expect pods web Ready 3 within 30s
        wait 1s
        evict pod web-1
        expect eviction allowed
        expect pods web Ready 3 within 10s
