"""Measurements of the rendezvous service."""
