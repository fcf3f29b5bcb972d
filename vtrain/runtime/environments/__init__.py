"""The environments that trainers run in on this machine."""
