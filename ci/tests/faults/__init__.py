"""The table of faults over simulated hosts."""
