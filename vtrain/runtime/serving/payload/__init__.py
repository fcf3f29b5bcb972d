"""Programs that run in the environment of a model."""
