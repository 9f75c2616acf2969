# Two control-plane nodes of five fail at once. One machine is switched off; the other must wait, whoever asks for it,
# until the first is back.
timers compressed
nodes cp1 cp2 cp3 cp4 cp5 as control-plane
operator
template power

at 2s   hang cp1
        hang cp2
        expect cp2 Unknown within 10s
        create remediation of cp1 by power
        expect incident cp1 PoweringOff within 5s
        create remediation of cp2 by power
        expect incident cp2 Open says "only one may be" within 5s
        expect machine cp1 off within 5s
        expect never machine cp2 off for 5s
        expect incident cp1 Closed within 20s
        expect machine cp2 off within 10s
        expect always machine cp1 on for 5s
        expect incident cp2 Closed within 20s
        expect machine cp2 on
