"""Booting from the network, by the machine's own NIC: addresses, and files that are fetched."""
