"""Who acts: one replica at a time for each bucket of nodes, by a Lease that it must keep renewing."""
