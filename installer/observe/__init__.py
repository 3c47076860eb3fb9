"""Views of an installation for wait-for and gather: the asset directory, the service, the cluster's API."""
