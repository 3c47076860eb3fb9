"""Connections and the loop that serves them: who is let in, and what keeps the loop busy."""
