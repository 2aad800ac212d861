"""Settings of the site, which `sphinx-build -W docs site` makes of these pages and of docstrings, without a network."""

from typing import Any

project = "agui_client"
author = project_copyright = "The agui_client authors"
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
suppress_warnings = ["ref.python"]  # `type` in an annotation is Python's, though records have a field of this name
default_role = "py:obj"  # `HttpAgent` in a docstring is a link if the reference has it, and else code
add_module_names = False
myst_heading_anchors = 3

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_mock_imports = ["aiohttp", "httpx2", "mcp", "mcp_types", "multidict", "pydantic_ai", "yarl"]
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = "agui_client"
html_show_sphinx = False
html_copy_source = False


def mark_code(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Mark the code and the drawings in a docstring, which stand there as `help()` shows them best."""
    text = "\n".join(lines)
    marked: list[str] = []
    in_code = False
    for paragraph in text.split("\n\n"):
        is_drawing = "├─" in paragraph
        is_code = paragraph.startswith("    ") and bool(marked)
        if is_drawing or (is_code and not in_code):
            marked.append("::" if is_drawing else ".. code-block:: python")
        marked.append("\n".join(f"    {line}" for line in paragraph.split("\n")) if is_drawing else paragraph)
        in_code = is_code
    lines[:] = "\n\n".join(marked).split("\n")


def setup(app: Any) -> None:
    """Call `mark_code` before napoleon reads the sections of a docstring."""
    app.connect("autodoc-process-docstring", mark_code, priority=400)
