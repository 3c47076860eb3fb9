"""Reading a document: its fields one by one, what it says of the whole host, and the model that all of it becomes."""
