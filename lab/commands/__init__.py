"""node0-lab."""
