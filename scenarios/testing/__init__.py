"""What scenarios share: a cluster as a subject, the service, its page, and how runs are told of."""
