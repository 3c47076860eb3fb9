"""What wait-for and gather look at an installation with: the asset directory, the service, the cluster's API."""
