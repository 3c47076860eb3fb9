"""The table of faults, run with simulated hosts."""
