"""The inspector: every moment of a recorded run on a page, and what differs between two recordings."""
