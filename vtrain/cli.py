"""The command tree, and the one door out: errors become exit codes here and nowhere else."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from vtrain.errors import (
    HungUp,
    InterruptedByUser,
    OutputError,
    TerminatedBySignal,
    UsageError,
    VtrainError,
)
from vtrain.flags.command import CommandInfo, Invocation, build_command, common_callback, take_text

GROUPS = {
    "custom-jobs": ("vtrain.commands.custom_jobs", "Create, watch and manage custom training jobs."),
    "package": ("vtrain.commands.package", "Package a trainer without running it."),
}
COMMANDS = {
    "gc": (
        CommandInfo(name="gc", handler="vtrain.commands.gc:gc"),
        "Remove what vtrain keeps to be fast, and what it left behind.",
    ),
}
"""Commands that stand alone; a command's module is imported when it is named."""
_TRACKS = frozenset({"ai", "beta", "alpha"})
"""Words of gcloud's command line that mean nothing here: `vtrain beta ai custom-jobs …` works."""

HELP = """Run Vertex AI training jobs: on this machine, in containers, on Vertex AI.

A `gcloud ai …` line works with `vtrain` in place of `gcloud ai`. The flags below stand before a command or
after it; `vtrain --version` prints the version."""


class Group(TyperGroup):
    """A group that names the nearest command where there is none of that name."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        command = self.get_command(ctx, name)
        if command is not None:
            return name, command, args[1:]
        if not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f"Did you mean {near[0]}?" if near else f"See '{ctx.command_path} --help'."
            raise UsageError(f"There is no command {name!r}.", hint=hint)
        return super().resolve_command(ctx, args)


class RootGroup(Group):
    """The groups of commands; a group's module is imported when it is named."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the base class's signature
        return [*GROUPS, *COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name in _TRACKS:
            return self
        if cmd_name in COMMANDS:
            return build_command(COMMANDS[cmd_name][0], rich_help=_wants_rich())
        if cmd_name not in GROUPS:
            return None
        module, text = GROUPS[cmd_name]
        return _group(CommandGroup, cmd_name, text, module)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in (GROUPS | COMMANDS).items()])


class CommandGroup(Group):
    """One group; each of its commands is built when it is called."""

    module = ""

    def _commands(self) -> dict[str, CommandInfo]:
        commands: tuple[CommandInfo, ...] = import_module(self.module).COMMANDS
        return {info.name: info for info in commands}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(self._commands())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        info = self._commands().get(cmd_name)
        return build_command(info, rich_help=_wants_rich()) if info else None


def _group(cls: type[TyperGroup], name: str, text: str, module: str = "") -> Any:
    app = typer.Typer(
        cls=cls,
        help=text,
        name=name,
        add_completion=False,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.callback()(common_callback())
    group = take_text(typer.main.get_command(app))
    if module:
        group.module = module
    return group


def _wants_rich() -> bool:
    """Help is dressed up for a terminal only: Rich costs more to import than all of vtrain."""
    return sys.stdout.isatty()


def run() -> NoReturn:
    """The console script."""
    _open_standard_streams()
    sys.exit(main(sys.argv[1:]))


def _open_standard_streams() -> None:
    """Give a closed stdin, stdout or stderr somewhere to lead, so that no other file gets its number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def main(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code. Never raises, never shows a traceback."""
    from vtrain.command_log import record_command

    with record_command(argv) as record, _signals():
        record.exit_code = _guarded(argv)
    return record.exit_code


def _guarded(argv: Sequence[str]) -> int:
    try:
        return _dispatch(argv)
    except VtrainError as error:
        return _report(error)
    except TyperException as error:
        return _report(_usage_error(error))
    except KeyboardInterrupt:
        return _report(InterruptedByUser("Interrupted."))
    except OSError as error:
        return _report(_os_error(error))
    except Exception as error:
        from vtrain.command_log import write_crash_report

        return _report(write_crash_report(argv, error))


def _dispatch(argv: Sequence[str]) -> int:
    if sys.platform == "win32":
        raise VtrainError("vtrain runs on Linux and macOS.", hint="On Windows, use WSL.")
    _check_encoding(argv)
    head, remainder = _split_remainder(argv)
    if any(word == "--version" for word in head):
        return _show_version()
    root = _group(RootGroup, "vtrain", HELP)
    code = root.main(
        args=head, prog_name="vtrain", standalone_mode=False, obj=Invocation(remainder=remainder)
    )
    return code if isinstance(code, int) else 0


def _check_encoding(argv: Sequence[str]) -> None:
    """A job is JSON, and JSON is text: a word that is not UTF-8 could not reach the trainer."""
    for word in argv:
        if not word.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in word):
            raise UsageError(f"The word {word!a} of the command line is not UTF-8.")


def _split_remainder(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...] | None]:
    words = list(argv)
    if "--" not in words:
        return words, None
    cut = words.index("--")
    return words[:cut], tuple(words[cut + 1 :])


def _show_version() -> int:
    from vtrain import __version__

    print(f"vtrain {__version__}")
    return 0


def _usage_error(error: TyperException) -> VtrainError:
    ctx = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error.format_message())
        return UsageError("")
    command = ctx.command_path if ctx is not None else "vtrain"
    return UsageError(error.format_message(), hint=f"See '{command} --help'.")


def _os_error(error: OSError) -> VtrainError:
    place = f": {error.filename}" if error.filename else ""
    return VtrainError(f"{error.strerror or error}{place}.")


def _report(error: VtrainError) -> int:
    from vtrain.output.console import Console

    with suppress(OutputError):  # nobody can be told that nobody can be told
        Console().error(error)
    return error.exit_code


@contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end a command as an error does: in order, with its own exit code."""

    def terminate(number: int, _frame: FrameType | None) -> None:
        raise HungUp("Hung up.") if number == signal.SIGHUP else TerminatedBySignal("Terminated.")

    heeded = [signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # `nohup` has it ignored
        heeded.append(signal.SIGHUP)
    previous = {number: signal.signal(number, terminate) for number in heeded}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
