# A node that falls silent again and again, each time for less than the grace, is never given up; for longer, it is.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO

at 2s   flap node of db-0 silent 2s alive 3s
        expect always that node Ready for 20s
        flap that node silent 9s alive 4s
        expect that node Unknown within 10s
        expect that node Ready within 8s
        expect that node Unknown within 12s
        heal that node
        expect that node Ready within 5s
        expect never pod db-0 Terminating for 15s
        expect disk of db-0 clean
