"""Logs as they are read: segments, entries, and the cursor over all replicas."""
