"""The client: a folder for each layer.

From low to high: `plugs` (where features plug in), `ground`, `protocol`, `transport`, `tools`, `conversation`, `run`,
`verbs` and `agent`.
"""
