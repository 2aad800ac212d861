"""The ground of all other code; it knows nothing of agents."""
