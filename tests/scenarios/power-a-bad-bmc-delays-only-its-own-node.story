# Three BMCs that hang, refuse and talk nonsense, and one that is well. Each of the bad ones says why in its own incident,
# and none of them keeps the good one waiting or proves anything.
timers compressed
nodes n1 n2 n3 n4 n5 n6 n7 n8 n9
operator
template power attempts 1 timeouts.powerOff=30s
check workers max-unhealthy 5 after 2s with power

at 2s   bmc of n1 hangs
        bmc of n2 refuses
        bmc of n3 answers garbage
        hang n1
        hang n2
        hang n3
        hang n4
        expect incident n4 PoweringOff within 10s
        expect proof n4 A within 5s
        expect incident n4 Closed within 20s
        expect incident n1 LookingAtPower says "no answer" within 15s
        expect incident n2 LookingAtPower says "credentials"
        expect incident n3 LookingAtPower says "makes no sense"
        expect incident n1 NeedsPerson within 30s
        expect incident n2 NeedsPerson within 5s
        expect incident n3 NeedsPerson within 5s
        expect never proof n1 for 10s
        expect never proof n2 for 10s
        expect never proof n3 for 10s
        expect machine n1 on
        expect machine n2 on
        expect machine n3 on
