"""A group of commands: their exceptions become exit codes, and its help shows the first sentence of each as a whole."""

from __future__ import annotations

import click

from agui_client._cli.exit_codes import drive

_LONGEST_SENTENCE = 1000


class CommandGroup(click.Group):
    """A group of commands; click's own cuts their summaries at the end of the line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and the summaries of the commands."""
        shown = [(name, command) for name, command in sorted(self.commands.items()) if not command.hidden]
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(_LONGEST_SENTENCE)) for name, command in shown])

    def invoke(self, ctx: click.Context) -> int:
        """Carry out a command; return its exit code, which is 0 if the command returns none."""
        return drive(lambda: int(super(CommandGroup, self).invoke(ctx) or 0))
