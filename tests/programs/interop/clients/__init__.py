"""Clients that others wrote, against `agent_app`."""
