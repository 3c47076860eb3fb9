"""Informers: what broke, how sure they are, and what to do (`node0-ci`; docs/informer.md)."""
