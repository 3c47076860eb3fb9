"""A run's evidence: files, phases, one page."""
