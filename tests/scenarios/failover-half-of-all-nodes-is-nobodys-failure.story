# Most nodes fall silent at once. That is the network, or the control plane, and no failure of nodes: no policy deletes
# anything. When enough of them are back, that has to last for a while; then what is still lost is moved.
timers compressed
nodes n1 n2 n3 n4 n5
deployment web replicas 5
operator
policy web for web

at 2s   partition n1
        partition n2
        partition n3
        expect n3 Unknown within 10s
        expect policy web SelfDoubt within 3s
        expect policy web moved 0
        expect always policy web moved 0 for 4s
        heal n1
        heal n2
        expect always policy web moved 0 for 8s
        expect policy web Moved within 30s
        expect pods web Ready 5 within 3s
