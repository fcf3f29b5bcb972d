"""Trains one model on several replicas, and goes on where it was when they are restarted."""
