"""A failed machine is switched off, proved to be down, freed of its workloads, and brought back: one table, three triggers."""
