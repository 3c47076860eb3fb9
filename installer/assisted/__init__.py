"""What service, agent, orchestrator and wait-for share: names, inventory, tokens, REST client, errors."""
