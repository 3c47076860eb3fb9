"""The stages of `create`, in their order: read, check, resolve, render, write; and the hosts and secrets they make."""
