"""A real Kubernetes control plane for tests, benchmarks and people: found or built, started, stopped, cleaned away."""
