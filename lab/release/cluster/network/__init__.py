"""The cluster's network: each node's part of it, routes to other nodes' pods, and the zone of its DNS server."""
