"""Static pods: as data, as manifests, and how they are installed on nodes."""
