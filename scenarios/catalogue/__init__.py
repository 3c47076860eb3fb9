"""The catalogue of scenarios and their order: ids, the table of faults, a topology of a file, scheduling."""
