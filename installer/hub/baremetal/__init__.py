"""Machines behind BMCs: the states of a BareMetalHost, what drives its machine, its pairing with an Agent."""
