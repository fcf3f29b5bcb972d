"""The processes that bring jobs, studies and pipelines to their ends."""
