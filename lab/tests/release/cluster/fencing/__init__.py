"""Tests of the programs that run two nodes that fence each other."""
