"""The rules of install-config.yaml and agent-config.yaml, as one table."""
