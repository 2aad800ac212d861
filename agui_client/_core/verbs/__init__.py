"""The ways in which a run is used: in a task, in a thread, observed, and as the response to a caller."""
