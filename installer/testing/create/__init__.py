"""Kits of `agent create`: inputs, registries with releases, ISOs, asset directories."""
