"""The node's network: routes to other nodes' pods, and the cluster's DNS zone."""
