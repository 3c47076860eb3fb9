"""Operations on clusters, hosts and infra-envs, for users and agents."""
