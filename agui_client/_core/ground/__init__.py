"""What everything stands on, and knows nothing of agents."""
