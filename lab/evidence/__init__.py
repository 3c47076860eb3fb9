"""What a run leaves to be looked at: files, phases, one page."""
