"""Scores of node0's judges on data that others have labelled, and on releases broken on purpose."""
