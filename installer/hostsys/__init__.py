"""Common parts of the programs on a live host: files and programs, bounds on what they run, the logs that they send."""
