"""The parts of a conversation: the ledger of its tool calls, and the document that it is saved as."""
