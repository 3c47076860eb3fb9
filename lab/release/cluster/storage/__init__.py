"""Volumes on the nodes' own disks."""
