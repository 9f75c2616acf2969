"""The structural schema of custom kinds: what it prunes, what it fills in, what it refuses."""
