# The power was gone before Defib ever saw the machine on. It is told to go on first, to see whether what is read follows
# what is switched; only then is off a proof.
timers compressed
nodes n1 n2 n3
statefulset db replicas 1 volume RWO
operator
template power

at 2s   stop operator
        power off node of db-0
        expect that node Unknown within 10s
        start operator
        create remediation of that node by power
        expect incident that node TestingPower within 10s
        expect machine that node on within 5s
        expect proof that node A within 8s
        expect pod db-0 Ready within 20s
        expect disk of db-0 clean
        expect incident that node Closed within 20s
        expect machine that node on
        delete remediation of that node by power
        expect no trace on that node within 2s
        expect always disk of db-0 clean for 3s
