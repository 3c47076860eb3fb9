"""Layers and images as OCI has them, from Debian packages, wheels and our own code."""
