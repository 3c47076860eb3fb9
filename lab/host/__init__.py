"""The machine that labs run on: what it has, what it can, who takes what."""
