"""Media that machines start the machine OS from: the disk image, the live ISO and its boot configuration."""
