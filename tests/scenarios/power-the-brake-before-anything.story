# The brake is on before the BMC has answered the first question: the machine is not touched until it is released.
timers compressed
nodes n1 n2 n3
operator
template power
check workers max-unhealthy 49% after 2s with power

at 2s   bmc of n1 answers after 4s
        hang n1
        expect incident n1 LookingAtPower within 10s
        brake on
        expect never machine n1 off for 2m
        expect incident n1 PoweringOff says "brake"
        brake off
        expect machine n1 off within 15s
        expect incident n1 Closed within 40s
        expect no trace on n1 within 2s
