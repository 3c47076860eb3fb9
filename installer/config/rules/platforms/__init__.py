"""Rules of the platforms: which it is, and a module for each that has fields of its own."""
