"""From a Cluster to what it means. Pure: no clock, IO, log or chance; the same input gives the same answer."""
