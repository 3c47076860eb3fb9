"""The machine that labs run on: its capacity, what it can run, and how labs share it."""
