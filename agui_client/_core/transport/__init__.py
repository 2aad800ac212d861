"""Transport: one POST goes out, the events of its SSE stream come back. Only this package knows httpx-sse."""
