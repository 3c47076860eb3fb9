"""The service held against the real assisted-service: the same hosts and the same requests to both."""
