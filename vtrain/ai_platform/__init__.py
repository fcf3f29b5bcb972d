"""AI Platform Training, whose service is gone: its jobs, and what they are in the words of Vertex AI."""
