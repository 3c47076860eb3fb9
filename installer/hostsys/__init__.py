"""What the programs on a live host share: its files and programs, bounds on what they run, the logs that they send."""
