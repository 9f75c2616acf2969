# Three nodes are lost at once, and pods of two may be moved at a time. The third waits and says so, until one of the others
# is back.
timers compressed
nodes n1 n2 n3 n4 n5 n6 n7
deployment web replicas 14
operator with failover_max_unhealthy 2
policy web for web

at 2s   power off n1
        power off n2
        wait 1s
        power off n3
        expect n3 Unknown within 10s
        expect policy web moved 4 within 3s
        expect policy web Budget within 2s
        expect policy web says "at most 2 nodes are moved at a time"
        expect event FailoverHeld says "failover_max_unhealthy" within 2s
        power on n1
        expect policy web Moved within 15s
        expect pods web Ready 14 within 5s
