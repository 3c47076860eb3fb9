"""What the installer is given in a lab: its input files, from a topology or as a user has them."""
