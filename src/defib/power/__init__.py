"""Power: reading and switching machines that no Kubernetes object drives. It knows nothing of the API server."""
