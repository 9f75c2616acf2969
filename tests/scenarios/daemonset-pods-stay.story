# The pods of a DaemonSet tolerate a lost node for ever; they are there again when it comes back.
timers compressed
nodes n1 n2 n3
daemonset agent

at 2s   power off n2
        expect n2 Unknown within 10s
        expect pods agent Ready 2 within 3s
        expect never pods agent Terminating 1 for 20s
        expect pods agent Running 3
        power on n2
        expect n2 Ready within 15s
        expect pods agent Ready 3 within 10s
