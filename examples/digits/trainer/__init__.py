"""Trains a classifier of handwritten digits."""
