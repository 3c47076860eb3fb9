"""Secrets of every kind, and what looks like one: what each half's tests hold its redactors against."""
