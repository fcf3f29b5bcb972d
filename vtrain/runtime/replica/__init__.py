"""A replica as it sees itself: the rules of Vertex AI, the world that it runs in, and the plan over both."""
