"""assisted-installer-controller."""
