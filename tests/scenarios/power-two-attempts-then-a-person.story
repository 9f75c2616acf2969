# A BMC that takes no password any more. It is tried as often as the template says, then a person is told; when that
# person has brought the node back, the incident is closed by itself.
timers compressed
nodes n1 n2 n3
operator
template power attempts 2 backoff 10s timeouts.powerOff=10s
check workers max-unhealthy 49% after 2s with power

at 2s   bmc of n1 refuses
        hang n1
        expect incident n1 LookingAtPower says "credentials" within 15s
        expect incident n1 WaitingToRetry says "attempt 2 of 2" within 15s
        expect incident n1 attempt 2 within 15s
        expect incident n1 NeedsPerson says "credentials" within 20s
        expect always incident n1 NeedsPerson for 5m
        expect machine n1 on
        power off n1
        power on n1
        expect n1 Ready within 15s
        expect incident n1 Closed within 5s
        expect no remediation of n1 within 2s
        expect no trace on n1 within 2s
