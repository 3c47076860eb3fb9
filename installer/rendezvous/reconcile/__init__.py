"""Applying the state tables to the store: when, to whom, in which order."""
