"""Checks of a host's abilities: reaching others, resolving names, writing quickly."""
