"""`python -m agui_client` is the `agui` command."""

import sys

from agui_client._cli import main

if __name__ == "__main__":
    sys.exit(main())
