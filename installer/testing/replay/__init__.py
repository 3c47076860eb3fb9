"""Installations under a virtual clock: the service, its hosts and their faults in one process, replayed from a seed."""
