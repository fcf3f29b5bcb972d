"""vtrain: train models on this machine and on Vertex AI with one command line."""

__version__ = "0.1.0"
