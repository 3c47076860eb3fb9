"""The cluster's certificates."""
