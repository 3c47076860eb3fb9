"""The steps that agents are asked to do."""
