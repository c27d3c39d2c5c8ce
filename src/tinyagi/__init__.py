"""TinyAGI: teams of AI agents coordinated through one durable queue."""
