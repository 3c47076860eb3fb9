"""The validations as tables, and the checks that they are made of."""
