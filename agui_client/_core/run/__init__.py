"""A call: its rounds, what is sent, what happens between them, its observers and its result."""
