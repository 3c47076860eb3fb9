"""A lab's daemons: their configuration, and the ones that are our own."""
