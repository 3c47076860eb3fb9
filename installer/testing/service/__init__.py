"""Kits of the rendezvous service: its engine and store in this process, the whole of it in one of its own."""
