"""Container machines for tests: without a lab, and with a firmware that needs no image."""
