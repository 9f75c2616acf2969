"""What a person asks of a cluster, or tells it, from a command line. It needs the API server, and no operator."""
