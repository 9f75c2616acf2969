"""The API server, nothing else: the only place that speaks Kubernetes over HTTP."""
