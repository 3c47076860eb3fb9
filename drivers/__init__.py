"""Small protocols for what can be done to a machine, and their implementations: libvirt, redfish, fake."""
