"""The person at the terminal: one question at a time, which is taken back when nobody waits for the answer any more.

prompt_toolkit reads the lines, because a read of its can be ended from outside: a question whose time is over, or whose
run was stopped, must not swallow what is typed next. Questions are asked in a thread, so that asyncio's loop and trio's
go on meanwhile.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

import anyio
from prompt_toolkit.application import get_app_session
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output
from prompt_toolkit.shortcuts import PromptSession
from rich.console import Console

from agui_client._pipeline.threads import LoopThread

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from prompt_toolkit.output import Output

T = TypeVar("T")
Around = Callable[[], AbstractContextManager[object]]
"""Makes what is entered while a question is on the screen."""

_LONGEST_GOODBYE = 1.0
"""Seconds that a question may take to leave the screen when it is taken back."""


class LeftError(Exception):
    """The person left the question, with Esc or Ctrl-D."""


class WithdrawnError(Exception):
    """Nobody waits for the answer any more."""


class Keyboard:
    """The keyboard, for as long as one question is asked."""

    def __init__(self) -> None:
        self._withdrawn = threading.Event()
        self._application: Application[str] | None = None

    @property
    def is_withdrawn(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._withdrawn.is_set()

    def read(self, prompt: str, *, default: str = "") -> str:
        """Have a line typed.

        Args:
            prompt: What stands before it.
            default: What stands there already, to be edited.

        Returns:
            The line.

        Raises:
            LeftError: The person does not want to answer.
            WithdrawnError: The question was taken back.
        """
        session = PromptSession[str](key_bindings=_KEYS, output=screen())
        self._application = session.app
        try:
            return session.prompt(FormattedText([("bold", prompt)]), default=default, pre_run=self._leave_if_withdrawn)
        except EOFError:
            raise LeftError from None
        except KeyboardInterrupt:
            self._interrupt_program()
            raise WithdrawnError from None

    def withdraw(self) -> None:
        """Take the question back, from any thread."""
        self._withdrawn.set()
        application = self._application
        loop = None if application is None else application.loop
        if loop is not None:
            with suppress(RuntimeError):  # it has ended by itself meanwhile
                loop.call_soon_threadsafe(self._leave_if_withdrawn)

    def _leave_if_withdrawn(self) -> None:
        application = self._application
        if self.is_withdrawn and application is not None and application.is_running and not application.is_done:
            application.exit(exception=WithdrawnError())

    def _interrupt_program(self) -> None:
        """Do what Ctrl-C does anywhere else; the terminal is in raw mode, so that here it was only a key."""
        if sys.platform == "win32":
            signal.raise_signal(signal.SIGINT)
        else:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        # What stops the run takes the question back; a denial must not get there before it.
        self._withdrawn.wait(_LONGEST_GOODBYE)


class Terminal:
    """Where questions are asked.

    Args:
        console: Where they are shown; the terminal if left out, even if stdout goes elsewhere.
        around: Makes what is entered while a question is on the screen, to stop what else is drawn there.
    """

    def __init__(self, console: Console | None = None, around: Around | None = None) -> None:
        self.console = console or Console(stderr=not sys.stdout.isatty())
        """Where questions are shown."""
        self._around = around or nullcontext

    def can_ask(self) -> bool:
        """Whether somebody could answer."""
        return sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())

    async def ask(self, dialogue: Callable[[Keyboard], T]) -> T:
        """Hold a dialogue, as soon as those before it are over.

        Args:
            dialogue: Called in a thread of its own.

        Returns:
            What it returns.
        """
        keyboard = Keyboard()
        loop, over, outcome = LoopThread(), anyio.Event(), Future[T]()

        def hold() -> None:
            """Hold the dialogue, in its thread."""
            try:
                with _turn_of(keyboard), self._around():
                    _forget_what_was_typed()
                    outcome.set_result(dialogue(keyboard))
            except BaseException as error:
                outcome.set_exception(error)
            loop.call(over.set)

        _waiting.append(keyboard)
        # A daemon, so that an editor somebody left open does not keep the program from ending.
        threading.Thread(target=copy_context().run, args=(hold,), name="agui question", daemon=True).start()
        try:
            await over.wait()
        finally:
            if not outcome.done():
                await _withdraw(keyboard, over)
        return outcome.result()


async def _withdraw(keyboard: Keyboard, over: anyio.Event) -> None:
    keyboard.withdraw()
    with _changed:
        _changed.notify_all()
    # The terminal is put right again before anybody else writes.
    with anyio.move_on_after(_LONGEST_GOODBYE, shield=True):
        await over.wait()


# There is one terminal, whoever asks.
_waiting: deque[Keyboard] = deque()
_changed = threading.Condition()


@contextmanager
def _turn_of(keyboard: Keyboard) -> Generator[None]:
    """Wait until it is this question's turn."""
    try:
        with _changed:
            _changed.wait_for(lambda: _waiting[0] is keyboard or keyboard.is_withdrawn)
        if keyboard.is_withdrawn:
            raise WithdrawnError
        yield
    finally:
        with _changed:
            _waiting.remove(keyboard)
            _changed.notify_all()


def screen() -> Output | None:
    """Where prompt_toolkit writes: the terminal, even if stdout goes elsewhere; None for where it would by itself."""
    return None if sys.stdout.isatty() or not sys.stderr.isatty() else create_output(always_prefer_tty=True)


def _forget_what_was_typed() -> None:
    """Drop the keys that were pressed before the question was there: they are no answer to it (SEC-3)."""
    source = get_app_session().input
    clear_typeahead(source)
    if sys.platform == "win32":
        import msvcrt

        while sys.stdin.isatty() and msvcrt.kbhit():
            msvcrt.getwch()
    else:
        import termios

        with suppress(termios.error, OSError, NotImplementedError):
            termios.tcflush(source.fileno(), termios.TCIFLUSH)


def _leave(event: KeyPressEvent) -> None:
    event.app.exit(exception=EOFError())


_KEYS = KeyBindings()
_KEYS.add("escape", eager=True)(_leave)
