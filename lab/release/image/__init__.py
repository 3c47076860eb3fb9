"""OCI layers and images, from Debian packages, wheels and our own code."""
