"""The machine-config server."""
