"""One queue for this machine."""
