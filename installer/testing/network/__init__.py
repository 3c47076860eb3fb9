"""Kits of NMState: documents, and what judges the keyfiles made of them."""
