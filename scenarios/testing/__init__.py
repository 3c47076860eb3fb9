"""Kits of the scenarios: a cluster as a subject, the service, its page, and reports of runs."""
