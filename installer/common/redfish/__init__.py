"""Redfish as BMCs speak it, over OpenStack's `sushy` client: connections, virtual drives, the meaning of refusals.

The lab's driver (drivers/redfish) and the hub (installer/hub/baremetal) stand on it.
"""
