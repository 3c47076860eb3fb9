"""Static pods: as data, as manifests, and how they come onto nodes."""
