"""From the API server to a frozen Cluster: list, watch, remember, and know when we are blind."""
