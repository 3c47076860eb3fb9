"""JSON, YAML and TOML that somebody else has written: read strictly, and safe to walk."""
