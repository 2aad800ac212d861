"""The versions of the package, which the build reads, too, and of the protocol."""

__version__ = "0.1.0"
PROTOCOL_VERSION = "1.0"
"""As `ag_ui.core` has it, which takes ten times as long to load as all that `agui --version` needs; a test compares."""
VERSIONS = f"agui {__version__} (AG-UI {PROTOCOL_VERSION})"
"""The version that `agui --version` prints."""
