"""When a node takes itself down, and when the others may count on it.

`verdict` is the agent's half: feed the watchdog, or stop. `heard` is the operator's half: whether enough agents are heard to
believe that a silent one is dead. `safe_time` is how long that takes. The two halves never both say "alive" and "gone": an
agent lives without word only while more than half of the domains tell it that they are cut off, and the operator believes in
its death only when at least half of them have told that to nobody. Two such majorities share a domain, and in it an agent.
"""
