"""What is remembered of runs: one SQLite file, and what is read into it."""
