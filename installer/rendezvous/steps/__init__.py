"""What agents are asked to do."""
