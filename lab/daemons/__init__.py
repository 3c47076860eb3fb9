"""The programs within a lab: their configuration, and those of our own."""
