"""Conversations that are kept, so that they outlive the process.

The conversation is saved before a run is sent, before a function is called, before its result is shown, and when a run
ended.

The modules, from low to high: `thread_store` (the seam to databases), `branches`, `message_pages`, `memory` (a store),
`entries` (one save), `known_logs`, `leases`, `worker` (the event loop of the store), `opened` (the block), `documents`
(export), `threads`.
"""
