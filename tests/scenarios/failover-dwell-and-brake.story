# Ten minutes of dwell are ten minutes, the brake holds, and a policy that is changed counts as it is now.
timers compressed
nodes n1 n2 n3 n4 n5
deployment web replicas 5
operator
policy web for web dwell 10m

at 2s   hang node of web
        expect that node Unknown within 10s
        expect never policy web moved 1 for 5s
        brake on
        edit policy web dwell 0s
        expect policy web Brake within 3s
        expect policy web moved 0
        brake off
        expect policy web moved 1 within 5s
        heal that node
        expect policy web Quiet within 10s
        delete policy web
        expect pods web Ready 5 within 10s
