"""Ignition configs and what MachineConfigs are made of."""
