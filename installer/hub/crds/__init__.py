"""Manifests of a hub: definitions of its custom resources, and what the operator may do."""
