"""What vtrain keeps to be fast and what it left behind: found, kept where it is used, removed."""
