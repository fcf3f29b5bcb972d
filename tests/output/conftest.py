"""Properties here are timed by nobody: a shared machine may pause in the middle of an example."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
