"""The answers of the vendors' BMCs, resource by resource."""
