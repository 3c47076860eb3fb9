"""What images are made of, read without the kernel's help."""
