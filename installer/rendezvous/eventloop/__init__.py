"""Connections and the loop that serves them: who may come in, what keeps it from hearing others."""
