"""The network's share of a node: routes to other nodes' pods, and the zone of its DNS server."""
