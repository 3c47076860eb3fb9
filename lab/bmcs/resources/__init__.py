"""What the vendors' BMCs answer, resource by resource."""
