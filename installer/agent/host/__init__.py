"""A host's hardware, disks, networks and name, read from the kernel."""
