"""What a container machine is made of: disks, cards, its serial line, and what it sees of them."""
