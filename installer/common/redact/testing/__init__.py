"""Secrets of every kind, and what looks like one: both halves' redactors are tested against these."""
