"""The two input files as types: install-config.yaml, agent-config.yaml, and the platforms' sections."""
