"""What users and agents do to clusters, hosts and infra-envs."""
