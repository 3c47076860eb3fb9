"""The memory of runs: one SQLite file, and what is read into it."""
