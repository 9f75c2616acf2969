"""An API server in memory, with hollow nodes, injected time, chance and faults: the demo's and the tests' cluster."""
