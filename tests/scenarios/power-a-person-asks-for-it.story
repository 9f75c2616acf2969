# A power cycle without any check: a person creates the object, for a node that is well. It has said yes when the node is
# back with a new boot.
timers compressed
nodes n1 n2 n3
deployment web replicas 3
operator
template power

at 2s   create remediation of n1 by power
        expect lock n1 held by defib-power-cycle within 2s
        expect machine n1 off within 8s
        expect proof n1 A within 5s
        expect incident n1 Closed within 30s
        expect n1 Ready
        expect pods web Ready 3 within 20s
        expect always machine n1 on for 30s                # once, and not in a circle
        delete remediation of n1 by power
        expect no remediation of n1 within 2s
        expect no trace on n1 within 2s
