"""Booting from the network, by the machine's own card: who is asked for an address, and what is fetched."""
