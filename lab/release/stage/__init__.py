"""Build stages: each built once, identified by everything that it is made from, kept in the cache."""
