"""Agents: a conversation and its verbs; over HTTP, of functions, with state that both sides write, and kept runs."""
