"""What a replica sees: the rules of Vertex AI, the world that it runs in, and the plan over both."""
