"""The hub: clusters from custom resources, through the rendezvous service."""
