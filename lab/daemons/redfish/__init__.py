"""The emulator's Redfish resources that are ours and not sushy-tools'."""
