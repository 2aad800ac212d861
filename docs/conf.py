"""Settings of the site, which `sphinx-build -W docs site` makes without a network."""

import re
from typing import Any

project = "agui_client"
author = project_copyright = "The agui_client authors"
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
# `type` in an annotation is Python's, though records have a field of this name.
suppress_warnings = ["ref.python"]
# `HttpAgent` in a docstring is a link if the reference has it, and else code.
default_role = "py:obj"
add_module_names = False
myst_heading_anchors = 3

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_mock_imports = [
    "aiohttp",
    "httpx2",
    "mcp",
    "mcp_types",
    "multidict",
    "pydantic_ai",
    "yarl",
]
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
maximum_signature_line_length = 68  # in longer ones, each parameter has a line

html_theme = "furo"
html_title = "agui_client"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
copybutton_exclude = ".linenos, .gp, .go"  # prompts and output are not to be pasted


PLURAL = re.compile(r"(`[^`\n]+`)(?=\w)")


def as_restructured(
    app: Any, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Mark the code and the drawings in a docstring, which are written for `help()`."""
    # An empty comment comes first where napoleon would take "text: text" for a type.
    marked: list[str] = [".."] if what in {"attribute", "property"} else []
    in_code = False
    for paragraph in "\n".join(lines).split("\n\n"):
        is_code = paragraph.startswith("    ") and any(marked)
        if "├─" in paragraph:
            marked += ["::", "\n".join(f"    {line}" for line in paragraph.split("\n"))]
        elif is_code:
            marked += [paragraph] if in_code else [".. code-block:: python", paragraph]
        else:
            # reStructuredText wants a space after the code of `Toolset`s.
            marked.append(PLURAL.sub(r"\1\\ ", paragraph))
        in_code = is_code
    lines[:] = "\n\n".join(marked).split("\n")


def setup(app: Any) -> None:
    """Call `as_restructured` before napoleon reads the sections of a docstring."""
    app.connect("autodoc-process-docstring", as_restructured, priority=400)
