"""Code that installer, lab and ci share; it imports nothing of theirs."""
