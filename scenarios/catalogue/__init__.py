"""Which scenarios there are, and in which order: ids, the table of faults, a topology of a file, scheduling."""
