"""bootkube, on the bootstrap host."""
