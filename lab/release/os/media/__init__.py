"""Media that start the machine OS: the disk image, the live ISO and its boot configuration, cpio archives."""
