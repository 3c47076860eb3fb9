"""The service's store: the model and the database."""
