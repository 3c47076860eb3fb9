"""agent-installer-client: registers what the live host brought with it."""
