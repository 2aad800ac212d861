"""Engines of applications, whose steps ask agents: for the full session, as they are not in the tests' environment."""
