"""Stages: each built once, known by all that it is made from, kept in the cache."""
