"""Controllers, one a resource: caches and the service's state in, wanted status and calls out."""
