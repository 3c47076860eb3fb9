"""What a host is: its hardware, disks, networks and name, read from the kernel."""
