"""Programs that run inside of images."""
