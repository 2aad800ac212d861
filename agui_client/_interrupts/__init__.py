"""Interrupts: their answers, and models made of their schemas."""
