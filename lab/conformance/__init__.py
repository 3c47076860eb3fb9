"""Kubernetes' own conformance suite against a lab's cluster: its programs, its images, a run of it and the results."""
