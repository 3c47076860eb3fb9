"""The early boot: the image's initramfs, run as the machine's first process, in its fence."""
