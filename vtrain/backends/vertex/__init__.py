"""Vertex AI, through Google's client library. Imported only when a command goes there."""
