"""The types of interface: what each says in a document, and in the sections of its keyfile."""
