"""One module a resource: what each path and method does, and routes.py, the table of them."""
