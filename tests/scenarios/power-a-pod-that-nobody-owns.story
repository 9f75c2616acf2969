# A pod that nobody owns is lost with its machine: no controller makes another one. It is named before it is ended.
timers compressed
nodes n1 n2 n3
pod solo
operator
template power
check workers max-unhealthy 49% after 2s with power

at 2s   hang node of solo
        expect incident that node FreeingWorkloads says "no controller makes these pods again (1)" within 25s
        expect proof that node A
        expect machine that node off
        expect pod solo Running                           # nothing was touched before
        expect pod solo gone within 5s
        expect that node Ready within 25s
        expect incident that node Closed within 5s
        expect no trace on that node within 2s
