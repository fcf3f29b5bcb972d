"""Predictions of a model on this machine, by the contract that Vertex AI has with serving containers."""
