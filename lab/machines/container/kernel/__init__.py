"""What container machines need of the host's kernel: calls, loop devices, control groups, users."""
