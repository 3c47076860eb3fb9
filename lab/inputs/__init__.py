"""Inputs of the installer in a lab: its files, from a topology or as a user has them."""
