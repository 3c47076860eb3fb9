"""Many simulated agents against a rendezvous service."""
