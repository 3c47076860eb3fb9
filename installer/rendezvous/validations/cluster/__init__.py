"""The cluster's validations: what they look at, those of its networks, and the table of all."""
