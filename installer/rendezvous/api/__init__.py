"""The REST API: the application, its routes, one module a resource, what a request may be."""
