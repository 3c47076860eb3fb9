"""What a container machine is kept in: namespaces, the filter, and the calls that are answered for it."""
