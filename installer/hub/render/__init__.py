"""`node0 hub render`: SiteConfig and ClusterInstance in, the hub's resources out."""
