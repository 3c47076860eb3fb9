"""IPMI for a lab's machines, beside their Redfish BMCs."""
