"""Runs jobs on as many hosts as there are, this machine alone by default."""
