"""From a partial description of a job to its end, for the command line and for Python code."""
