"""A topology's nodes as machines: defined in libvirt, driven through drivers."""
