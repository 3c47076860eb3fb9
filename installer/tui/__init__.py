"""The console of hosts that booted an unconfigured image: network, rendezvous host, page (docs/interactive.md).

A program of its own on the live host, made of Python's standard library alone.
"""
