"""The network's share of a node: routes to other nodes' pods."""
