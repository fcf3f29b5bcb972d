"""Garbage collection: removal of caches and remains that nothing uses."""
