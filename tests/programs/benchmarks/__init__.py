"""What the client costs, as ratios in one run on one machine: `python tests/programs/benchmarks/run.py`."""
