"""Fits one line on several machines: each has its own points, all share the gradient."""
