"""Kits of the rendezvous service as clients have it: its API in this process, the whole of it in one of its own."""
