"""Bodies and parameters of requests, decoded at the edge: what is wrong with one is a 400 that names the field."""
