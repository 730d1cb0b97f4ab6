"""Keys of devices: the file that has them, and what of it is valid now."""
