"""The process that a lab is, what it is told, and how it is asked."""
