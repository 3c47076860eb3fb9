"""Boot loaders: from their configuration to a kernel's arguments and initrds."""
