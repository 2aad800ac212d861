"""Questions at the terminal: one at a time, and each can be withdrawn while it waits for its answer.

prompt_toolkit reads the lines, because its prompts can be ended from outside: a question that timed out, or whose run
was stopped, must not read the line that is typed next. Each question has a thread of its own, so that the event loop,
asyncio's or trio's, is not blocked.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio
from prompt_toolkit.application import get_app, get_app_session
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output
from prompt_toolkit.shortcuts import PromptSession
from rich.console import Console
from rich.text import Text

from agui_client._core.ground.concurrency import LoopThread
from agui_client._rendering.escaping import sentence
from agui_client._rendering.form_dialog import LeftError
from agui_client.terminal._plain_view import paused_screen

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from prompt_toolkit.output import Output

T = TypeVar("T")
Around = Callable[[], AbstractContextManager[object]]
"""A function that makes the context manager to be entered while a question is on the screen."""

_WITHDRAWAL_SECONDS = 1.0
"""The time that a withdrawn question may take to leave the screen."""


class WithdrawnError(Exception):
    """The question was withdrawn: its answer is not needed any more."""


class Keyboard:
    """The keyboard during one question."""

    def __init__(self) -> None:
        self._withdrawn = threading.Event()
        self._application: Application[str] | None = None
        self.restore: Callable[[], None] = lambda: None
        """Gives the terminal back its modes from before the question, if the thread does not come to it."""

    @property
    def is_withdrawn(self) -> bool:
        """Whether the question was withdrawn."""
        return self._withdrawn.is_set()

    def read(self, prompt: str, *, default: str = "", is_hidden: bool = False) -> str:
        """Read a line from the user.

        Args:
            prompt: The text before the line.
            default: The text that the line begins with; the user may edit it.
            is_hidden: Whether stars stand for what is typed.

        Returns:
            The line.

        Raises:
            LeftError: The user does not want to answer.
            WithdrawnError: The question was withdrawn.
        """
        session = PromptSession[str](key_bindings=_KEYS, output=screen())
        self._application = session.app
        self.restore = _saved_modes()
        try:
            shown = FormattedText([("bold", prompt)])
            return session.prompt(shown, default=default, is_password=is_hidden, pre_run=self._leave_if_withdrawn)
        except EOFError:
            raise LeftError from None
        except KeyboardInterrupt:
            self._interrupt_program()
            raise WithdrawnError from None

    def withdraw(self) -> None:
        """Withdraw the question, from any thread."""
        self._withdrawn.set()
        application = self._application
        loop = None if application is None else application.loop
        if loop is not None:
            with suppress(RuntimeError):  # the prompt has ended meanwhile
                loop.call_soon_threadsafe(self._leave_if_withdrawn)

    def _leave_if_withdrawn(self) -> None:
        application = self._application
        if self.is_withdrawn and application is not None and application.is_running and not application.is_done:
            application.exit(exception=WithdrawnError())

    def _interrupt_program(self) -> None:
        """Send the signal of Ctrl-C to the program: in raw mode the terminal only reports a key."""
        if sys.platform == "win32":
            signal.raise_signal(signal.SIGINT)
        else:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        # Stopping the run withdraws the question; a denial must not be sent before that.
        self._withdrawn.wait(_WITHDRAWAL_SECONDS)


class Terminal:
    """A terminal that asks questions.

    Args:
        console: The console that shows questions; the terminal if left out, even if stdout is redirected.
        around: Makes a context manager that is entered while a question is on the screen, to pause other drawing; if
            left out, the runs that are being shown here are paused.
    """

    def __init__(self, console: Console | None = None, around: Around | None = None) -> None:
        self.console = console or Console(stderr=not sys.stdout.isatty())
        """The console that shows questions."""
        self._around = around or paused_screen

    def can_ask(self) -> bool:
        """Return whether a user can see a question and type an answer."""
        return sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())

    def say(self, text: str) -> None:
        """Show a line below a question.

        Args:
            text: The line; characters that a terminal would obey or hide are shown.
        """
        self.console.print(Text(f"  {sentence(text)}", style="dim"))

    async def ask(self, dialogue: Callable[[Keyboard], T]) -> T:
        """Run a dialogue after those before it have ended.

        Args:
            dialogue: Asks the questions; called in a thread of its own.

        Returns:
            The result of the dialogue.
        """
        keyboard = Keyboard()
        loop, over, outcome = LoopThread(), anyio.Event(), Future[T]()

        def run() -> None:
            """Run the dialogue, in its thread."""
            try:
                with _turn_of(keyboard), self._around():
                    _drop_earlier_keys()
                    outcome.set_result(dialogue(keyboard))
            except BaseException as error:
                outcome.set_exception(error)
            loop.call(over.set)

        _waiting.append(keyboard)
        # A daemon, so that an editor that was left open does not keep the program alive.
        threading.Thread(target=copy_context().run, args=(run,), name="agui question", daemon=True).start()
        try:
            await over.wait()
        finally:
            if not outcome.done():
                await _withdraw(keyboard, over)
                if not over.is_set():
                    keyboard.restore()
        return outcome.result()


async def _withdraw(keyboard: Keyboard, over: anyio.Event) -> None:
    keyboard.withdraw()
    with _changed:
        _changed.notify_all()
    # The terminal is restored before anything else writes to it.
    with anyio.move_on_after(_WITHDRAWAL_SECONDS, shield=True):
        await over.wait()


def _saved_modes() -> Callable[[], None]:
    # The thread may be slow, or in an editor: if the program ends meanwhile, nobody else gives the shell its echo back.
    if sys.platform == "win32":
        return lambda: None
    import termios

    try:
        terminal = sys.stdin.fileno()
        modes = termios.tcgetattr(terminal)
    except (termios.error, OSError, ValueError):  # no terminal, or a stdin without a descriptor
        return lambda: None
    return partial(termios.tcsetattr, terminal, termios.TCSANOW, modes)


# A process has one terminal, whatever number of `Terminal`s asks there.
_waiting: deque[Keyboard] = deque()
_changed = threading.Condition()


@contextmanager
def _turn_of(keyboard: Keyboard) -> Generator[None]:
    """Wait for the turn of a question."""
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
    """Return the terminal as prompt_toolkit's output if stdout is redirected; None for its default output."""
    return None if sys.stdout.isatty() or not sys.stderr.isatty() else create_output(always_prefer_tty=True)


def _drop_earlier_keys() -> None:
    """Drop the keys that were pressed before the question was shown: they do not answer it (SEC-3)."""
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


def _clear(event: KeyPressEvent) -> None:
    event.app.current_buffer.reset()


def _has_text() -> bool:
    return bool(get_app().current_buffer.text)


_KEYS = KeyBindings()
_KEYS.add("escape", eager=True)(_leave)
# In an empty line, Ctrl-C stops the program as it does anywhere else.
_KEYS.add("c-c", filter=Condition(_has_text))(_clear)
