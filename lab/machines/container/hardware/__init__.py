"""The parts of a container machine: disks, NICs, its serial line, and its /dev, /proc and /sys."""
