"""Tables of conditions: pure functions of objects and the service's state, a file a resource."""
