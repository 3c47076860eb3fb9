"""The fence of a container machine: the filter of its calls, the answers to some of them, and readers of images."""
