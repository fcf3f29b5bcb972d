"""The command tree, and the end of every command: only here do errors become exit codes."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec
from typer.core import TyperGroup
from typer.exceptions import Exit, TyperException

from vtrain import __version__
from vtrain.command_log import masked_line, record_command, write_crash_report
from vtrain.commands import COMMANDS, GROUPS, HEADINGS, Listed
from vtrain.errors import (
    HungUp,
    InterruptedByUser,
    OutputError,
    TerminatedBySignal,
    UsageError,
    VtrainError,
    refusal,
)
from vtrain.flags.command import (
    HELP_NAMES,
    CommandInfo,
    Invocation,
    WithHelp,
    build_command,
    common_flags,
    take_common,
)
from vtrain.flags.synonyms import COMMANDS as SYNONYMS
from vtrain.flags.synonyms import meant
from vtrain.messages.nearest import did_you_mean
from vtrain.output.writing import print_text, set_haste
from vtrain.settings import check_current_folder

if TYPE_CHECKING:
    from vtrain.flags.help_page import HelpPage

_OTHER_NAMES = {"ml-engine": "ai-platform"}
"""Names of groups that gcloud took besides their own."""
COMPLETION_FLAGS = ("--install-completion", "--show-completion")
_TRACKS = {"ai": {}, "beta": {"api_version": "v1beta1"}, "alpha": {"api_version": "v1beta1"}}
"""Words of gcloud's command line, and the common flags that they stand for: `vtrain beta ai …`."""

HELP = "Run Vertex AI training jobs on this machine, in containers, or on Vertex AI."
EXAMPLES = (
    ("Run a script on this machine", "vtrain run train.py -- --epochs=3"),
    (
        "Run a job on Vertex AI, and print its log",
        "vtrain submit train.py --backend=vertex --yes --stream-logs",
    ),
    ("Print the log of the newest job on this machine", "vtrain logs"),
)
NOTES = (
    "A 'gcloud ai …' line works with 'vtrain' in place of 'gcloud ai'.",
    "'vtrain help COMMAND' or 'vtrain COMMAND -h' shows the flags and examples of a command. "
    "'vtrain --install-completion' makes bash, zsh or fish complete them.",
)


class Group(WithHelp, TyperGroup):
    """A group that names the nearest command where there is none of that name."""

    examples: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def rows(self) -> dict[str, list[tuple[str, str]]]:
        """The commands and their summaries, below the headings of the help."""
        raise NotImplementedError

    def page(self, ctx: Any) -> HelpPage:
        """Return the help of the group."""
        from vtrain.flags.help_page import group_page

        return group_page(
            ctx.command_path, self.help or "", self.rows(), examples=self.examples, notes=self.notes
        )

    def get_help(self, ctx: Any) -> str:
        """Return the help as text, laid out for stdout."""
        from vtrain.flags.help_page import shown

        return shown(self.page(ctx))

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the commands that a shell offers with their summaries; none of them is built."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        from vtrain.commands.shell import completion_item

        rows = (row for rows in self.rows().values() for row in rows)
        return [completion_item(name, text) for name, text in rows if name.startswith(incomplete)]

    def invoke(self, ctx: Any) -> Any:
        """Keep the common flags of the group, and call its command."""
        take_common(ctx)
        return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        command = self.get_command(ctx, name)
        if command is not None:
            return name, command, args[1:]
        if not name.startswith("-"):
            raise UsageError(f"There is no command {name!r}.", hint=self.hint(ctx, name))
        return super().resolve_command(ctx, args)

    def hint(self, ctx: Any, name: str) -> str:
        """Say what to type instead of a word that is no command."""
        if target := meant(name, SYNONYMS, partial(self.has, ctx)):
            return f"Did you mean {ctx.command_path} {target}?"
        elsewhere = f"See '{ctx.command_path} --help'."
        return did_you_mean(name, self.list_commands(ctx), otherwise=elsewhere)

    def has(self, ctx: Any, line: str) -> bool:
        """Whether the first words of a line are a command."""
        return line.split()[0] in self.list_commands(ctx)


def command_alone(name: str) -> CommandInfo:
    """Import the table with one of COMMANDS, and return the command."""
    listed = COMMANDS[name]
    info = next(info for info in listed.commands() if info.name == name)
    fixed = {"make_root": lambda: _group(RootGroup, "vtrain", HELP)} if name == "help" else info.fixed
    return msgspec.structs.replace(info, summary=listed.summary, fixed=fixed)


class RootGroup(Group):
    """The groups of commands; a group's module is imported when it is named."""

    examples = EXAMPLES
    notes = NOTES

    def hint(self, ctx: Any, name: str) -> str:
        """Say what to type instead of a word that is no command, or one of a group."""
        group = "custom-jobs"
        if name not in SYNONYMS and any(info.name == name for info in GROUPS[group].commands()):
            return f"Did you mean vtrain {group} {name}?"
        if os.path.isfile(name):  # noqa: PTH113 - pathlib costs more to import than the rest of a start
            return f"Did you mean vtrain run {shlex.quote(name)}?"
        return super().hint(ctx, name)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the base class's signature
        return [*GROUPS, *COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in _TRACKS:
            ctx.obj.common |= _TRACKS[cmd_name]
            return self
        if cmd_name in COMMANDS:
            return build_command(command_alone(cmd_name))
        cmd_name = _OTHER_NAMES.get(cmd_name, cmd_name)
        if cmd_name not in GROUPS:
            return None
        return _group(CommandGroup, cmd_name, GROUPS[cmd_name].summary, GROUPS[cmd_name])

    def rows(self) -> dict[str, list[tuple[str, str]]]:
        found: dict[str, list[tuple[str, str]]] = {heading: [] for heading in HEADINGS}
        for name, listed in (GROUPS | COMMANDS).items():
            found[listed.heading].append((name, listed.summary))
        return {heading: rows for heading, rows in found.items() if rows}


class CommandGroup(Group):
    """One group; each of its commands is built when it is called.

    The names of some commands are several words: `jobs list` is `list` in the group `jobs`, and `prefix` are
    the words that were typed already.
    """

    listed: Listed
    prefix = ""

    def _commands(self) -> dict[str, CommandInfo]:
        """The commands by the words that are left to type."""
        return {
            info.name.removeprefix(self.prefix): info
            for info in self.listed.commands()
            if info.name.startswith(self.prefix)
        }

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(dict.fromkeys(name.partition(" ")[0] for name in self._commands()))

    def hint(self, ctx: Any, name: str) -> str:
        """Say what has replaced a word, where that is known."""
        return self.listed.replaced.get(self.prefix + name) or super().hint(ctx, name)

    def rows(self) -> dict[str, list[tuple[str, str]]]:
        return {"Commands": [(name, info.summary) for name, info in self._commands().items()]}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        commands = self._commands()
        if cmd_name in commands:
            return build_command(commands[cmd_name])
        if any(name.startswith(f"{cmd_name} ") for name in commands):
            return _group(CommandGroup, cmd_name, self.help or "", self.listed, f"{self.prefix}{cmd_name} ")
        return None


def _group(
    cls: type[TyperGroup], name: str, text: str, listed: Listed | None = None, prefix: str = ""
) -> Any:
    group: Any = cls(
        name=name,
        params=list(common_flags()),
        help=text,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": HELP_NAMES},
    )
    if listed is not None:
        group.listed, group.prefix = listed, prefix
    return group


def main(argv: Sequence[str], *, is_repeated: bool = False) -> int:
    """Run one command line and return its exit code. Never raises, never shows a traceback.

    `is_repeated` is for the line of a job that is run again.
    """
    with record_command(argv, is_repeated=is_repeated) as record, _signals():
        try:
            record.exit_code = _guarded(argv)
        except KeyboardInterrupt:  # this signal and the next met a command that was telling its error
            record.exit_code = InterruptedByUser.exit_code
        except TerminatedBySignal as signalled:
            record.exit_code = signalled.exit_code
    return record.exit_code


def _guarded(argv: Sequence[str]) -> int:
    invocation, began = Invocation(), time.monotonic()
    exit_code = _outcome(argv, invocation)
    if invocation.common.get("notify"):
        from vtrain.commands.notify import notify

        notify(masked_line(argv), exit_code, time.monotonic() - began)
    return exit_code


def _outcome(argv: Sequence[str], invocation: Invocation) -> int:
    try:
        return _dispatch(argv, invocation)
    except VtrainError as error:
        reported = error
    except TyperException as error:
        reported = _usage_error(error)
    except KeyboardInterrupt:
        reported = InterruptedByUser("Interrupted.")
    except OSError as error:
        reported = _os_error(error)
    except Exception as error:
        reported = write_crash_report(argv, error)
    finally:
        if "vtrain.runtime.supervisor_process" in sys.modules:
            from vtrain.runtime.supervisor_process import dismiss_standby

            dismiss_standby()
    return _report(reported, invocation)


def _dispatch(argv: Sequence[str], invocation: Invocation) -> int:
    if sys.platform == "win32":
        raise VtrainError("vtrain runs on Linux and macOS.", hint="On Windows, use WSL.")
    _check_encoding(argv)
    head, remainder = _split_remainder(argv)
    head = _expanded(head)
    if "--version" in head:
        print_text(f"vtrain {__version__}")
        return 0
    root, invocation.remainder = _group(RootGroup, "vtrain", HELP), remainder
    if "_VTRAIN_COMPLETE" in os.environ or any(word.partition("=")[0] in COMPLETION_FLAGS for word in head):
        return _complete(root, invocation, head)
    # Not `root.main`, which ends without a word where any pipe breaks, be it that of an engine.
    try:
        with root.make_context("vtrain", head, obj=invocation) as context:
            root.invoke(context)
    except Exit as end:  # --help was printed
        return end.exit_code
    except TyperException as error:
        if type(error).__name__ != "NoArgsIsHelpError":
            raise
        print_text(error.format_message())
        return UsageError.exit_code
    return 0


def _complete(root: Any, invocation: Invocation, words: list[str]) -> int:
    """Answer a shell that completes a line (it asks through the environment), or set completion up."""
    from vtrain.commands import shell

    if shell.VARIABLE in os.environ:
        shell.answer(root, invocation)
    else:
        print_text(shell.set_up(words))
    return 0


def _check_encoding(argv: Sequence[str]) -> None:
    """Raise UsageError for a word that is not UTF-8: a job is JSON, so it could not reach the trainer."""
    for word in argv:
        if "\0" in word:
            raise UsageError(f"The word {word!a} of the command line holds a NUL character.")
        if not word.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in word):
            raise UsageError(f"The word {word!a} of the command line is not UTF-8.")


def _split_remainder(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...] | None]:
    words = list(argv)
    if "--" not in words:
        return words, None
    cut = words.index("--")
    return words[:cut], tuple(words[cut + 1 :])


def _expanded(words: list[str]) -> list[str]:
    """Return the words with each `--flags-file` replaced by its flags."""
    if not any(word.startswith("--flags-file") for word in words):
        return words
    from vtrain.flags.flags_file import expand_flags_files

    return expand_flags_files(words)


def _usage_error(error: TyperException) -> VtrainError:
    ctx = getattr(error, "ctx", None)
    command = ctx.command_path if ctx is not None else "vtrain"
    return UsageError(error.format_message(), hint=f"See '{command} --help'.")


def _os_error(error: OSError) -> VtrainError:
    """The error of a file; a relative path is not the fault where the current folder was removed."""
    if isinstance(error, FileNotFoundError) and not str(error.filename or "").startswith("/"):
        try:
            check_current_folder()
        except VtrainError as gone:
            return gone
    return VtrainError(f"{refusal(error)}.")


def _report(error: VtrainError, invocation: Invocation) -> int:
    from vtrain.output.console import VERBOSITIES, Console

    if any(text in error.message + error.hint for text in ("projects/local/", "custom-jobs list")):
        from vtrain.core.references import with_shown_names

        error.message, error.hint = with_shown_names(error.message), with_shown_names(error.hint)
    verbosity = invocation.common.get("verbosity", "")
    console = Console(verbosity=verbosity) if verbosity in VERBOSITIES else Console()
    with suppress(OutputError):  # stderr cannot be written: nothing is left to say it with
        console.error(error)
    return error.exit_code


@contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end a command as an error does: in order, with its own exit code."""

    def terminate(number: int, _frame: FrameType | None) -> None:
        set_haste(True)
        raise HungUp("Hung up.") if number == signal.SIGHUP else TerminatedBySignal("Terminated.")

    set_haste(False)
    caught = [signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # `nohup` has it ignored
        caught.append(signal.SIGHUP)
    previous = {number: signal.signal(number, terminate) for number in caught}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
