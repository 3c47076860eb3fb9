"""Small protocols for what can be done to a machine, and those who implement them: libvirt, redfish, fake."""
