"""What pods and nodes use of CPU and memory: the API behind `kubectl top`."""
