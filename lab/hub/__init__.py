"""The hub of a lab: a Kubernetes API server without nodes, to which clusters are applied as custom resources."""
