"""The host's kernel for container machines: system calls, loop devices, control groups, users."""
