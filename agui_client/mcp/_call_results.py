"""Results of an MCP server: their check by the tool's schema, and their content as a tool's result."""

from __future__ import annotations

import json
from base64 import b64decode

import mcp_types
from ag_ui.core import TextPart

from agui_client._core.protocol.prompts import Part, attach
from agui_client._core.tools.json_schema import plainly, schema_problems
from agui_client.errors import ToolError

_UNKNOWN_TYPE = "application/octet-stream"


def check(result: mcp_types.CallToolResult, tool: mcp_types.Tool | None) -> None:
    """Check a result by the schema of its tool.

    The SDK tries the patterns of the schema, for which a server needs one line to freeze the program.

    Raises:
        ValueError: The result does not fit.
    """
    schema = None if tool is None or result.is_error else tool.output_schema
    if schema is None:
        return
    if result.structured_content is None and "structured_content" not in result.model_fields_set:
        raise ValueError("the tool has an output schema, and its result no structured content")
    if problems := schema_problems(schema, result.structured_content):
        raise ValueError(plainly(problems))


def content(result: mcp_types.CallToolResult) -> object:
    """Return a result as a tool's result: text, content parts, or JSON.

    Raises:
        ToolError: The tool reported an error.
    """
    parts = [_part(block) for block in result.content]
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    if result.is_error:
        raise ToolError("\n".join(texts) or "The tool failed and gave no reason.")
    # Servers repeat structured content as text, for clients that know only text.
    if len(texts) == len(parts):
        return "\n".join(texts) if result.structured_content is None else result.structured_content
    if not texts and result.structured_content is not None:
        return [TextPart(text=json.dumps(result.structured_content, ensure_ascii=False)), *parts]
    return parts


def _part(block: mcp_types.ContentBlock) -> Part:
    match block:
        case mcp_types.TextContent():
            return TextPart(text=block.text)
        case mcp_types.ImageContent() | mcp_types.AudioContent():
            return attach(b64decode(block.data), block.mime_type or _UNKNOWN_TYPE)
        case mcp_types.ResourceLink():
            return TextPart(text=f"{block.title or block.name}: {block.uri}")
        case mcp_types.EmbeddedResource(resource=resource):
            if isinstance(resource, mcp_types.TextResourceContents):
                return TextPart(text=resource.text)
            return attach(b64decode(resource.blob), resource.mime_type or _UNKNOWN_TYPE)
