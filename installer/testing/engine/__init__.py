"""Kits of the service's engine, store and validations in this process, with clocks that tests turn."""
