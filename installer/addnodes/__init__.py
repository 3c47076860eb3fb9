"""Hosts for a cluster that runs: images that add them, and how far they are (reference/add-nodes.md)."""
