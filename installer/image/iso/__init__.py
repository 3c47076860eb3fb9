"""ISOs of CoreOS live systems: read, and changed byte by byte."""
