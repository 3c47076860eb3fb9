"""From the model to profiles: which there are and in which order, what of the host each holds, and its sections."""
