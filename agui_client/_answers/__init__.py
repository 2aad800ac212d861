"""Answers to interrupts: what is sent for one, the form and the model made of its schema, and how it is judged."""
