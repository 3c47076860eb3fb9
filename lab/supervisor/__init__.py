"""A lab's supervisor process: its plan, its control socket, and how it is watched."""
