"""Mutation testing: what the tests notice when the code is changed (docs/architecture.md, "Mutation testing")."""
