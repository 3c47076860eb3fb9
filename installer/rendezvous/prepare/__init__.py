"""From a cluster to its ignition, by the payload's own installer."""
