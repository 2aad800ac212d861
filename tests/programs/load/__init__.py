"""Many streams at once through a served proxy, with a deploy in the middle: `python -m tests.programs.load`."""
