"""The state machines as tables."""
