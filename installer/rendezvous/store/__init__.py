"""What is kept: the model and the database."""
