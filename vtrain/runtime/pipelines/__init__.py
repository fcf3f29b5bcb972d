"""Training pipelines on this machine: the data for a task, the job that it runs, the model that it leaves."""
