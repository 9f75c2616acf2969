"""Days on which nodes take themselves down: the real agents in virtual time, on a network whose links are cut one by one."""
