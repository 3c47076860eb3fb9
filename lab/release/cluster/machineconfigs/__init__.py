"""The machine-config controller and the daemon on each node."""
