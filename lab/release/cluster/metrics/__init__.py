"""The CPU and memory that pods and nodes use: the API that `kubectl top` asks."""
