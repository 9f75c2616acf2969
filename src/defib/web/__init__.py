"""HTTP that people and probes read from us."""
