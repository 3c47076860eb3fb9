"""Common ground of service, agent, orchestrator and wait-for: names, inventory, tokens, REST client, errors."""
