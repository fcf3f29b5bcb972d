"""The command tree, and the one door out: errors become exit codes here and nowhere else."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType
from typing import Any

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
from vtrain.flags.command import CommandInfo, Invocation, build_command, common_flags, take_text
from vtrain.flags.options import CommonFlags, DryRunFlag, PruneFlags
from vtrain.messages.nearest import did_you_mean

GROUPS = {
    "custom-jobs": ("vtrain.commands.custom_jobs", "Create, watch and manage custom training jobs."),
    "hp-tuning-jobs": (
        "vtrain.commands.hp_tuning_jobs",
        "Create, watch and manage hyperparameter tuning jobs.",
    ),
    "persistent-resources": (
        "vtrain.commands.persistent_resources",
        "Create and manage machines that stay up between jobs.",
    ),
    "package": ("vtrain.commands.package", "Package a trainer without running it."),
    "emulator": ("vtrain.commands.emulator", "Serve APIs of Google Cloud on this machine."),
}
COMMANDS = {
    "gc": CommandInfo(
        name="gc",
        handler="vtrain.commands.gc:gc",
        summary="Remove what vtrain keeps to be fast, and what it left behind.",
        details="Ended jobs with their logs, cached environments, packages and images that were not used for "
        "30 days; and processes, containers, networks and temporary files that nobody needs any more. What a "
        "job uses that has not ended stays, and so does an image that was given a name of its own.",
        flags=(PruneFlags, DryRunFlag, CommonFlags),
    ),
}
"""Commands that stand alone."""
_REPLACED = ("ai-platform", "ml-engine")
"""Groups of gcloud for AI Platform Training, which is gone."""
_REPLACED_HINT = (
    "Near to 'jobs submit training' is 'vtrain custom-jobs create': --module-name is --python-module, "
    "--package-path is --local-package-path, and --scale-tier or --master-machine-type is "
    "--worker-pool-spec=machine-type=TYPE."
)
COMPLETION_FLAGS = ("--install-completion", "--show-completion")
_TRACKS = {"ai": {}, "beta": {"api_version": "v1beta1"}, "alpha": {"api_version": "v1beta1"}}
"""Words of gcloud's command line, and the common flags that they stand for: `vtrain beta ai …`."""

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
            elsewhere = f"See '{ctx.command_path} --help'."
            hint = did_you_mean(name, self.list_commands(ctx), otherwise=elsewhere)
            raise UsageError(f"There is no command {name!r}.", hint=hint)
        return super().resolve_command(ctx, args)


class RootGroup(Group):
    """The groups of commands; a group's module is imported when it is named."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the base class's signature
        return [*GROUPS, *COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in _TRACKS:
            ctx.obj.common |= _TRACKS[cmd_name]
            return self
        if cmd_name in COMMANDS:
            return build_command(COMMANDS[cmd_name], rich_help=_wants_rich())
        if cmd_name in _REPLACED:
            message = f"Vertex AI has replaced AI Platform Training, and so there is no 'vtrain {cmd_name}'."
            raise UsageError(message, hint=_REPLACED_HINT)
        if cmd_name not in GROUPS:
            return None
        module, text = GROUPS[cmd_name]
        return _group(CommandGroup, cmd_name, text, module)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        groups = [(name, text) for name, (_, text) in GROUPS.items()]
        with formatter.section("Commands"):
            formatter.write_dl([*groups, *((name, info.summary) for name, info in COMMANDS.items())])


class CommandGroup(Group):
    """One group; each of its commands is built when it is called."""

    module = ""

    def _commands(self) -> dict[str, CommandInfo]:
        commands: tuple[CommandInfo, ...] = import_module(self.module).COMMANDS
        return {info.name: info for info in commands}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(self._commands())

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, info.summary) for name, info in self._commands().items()])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        info = self._commands().get(cmd_name)
        return build_command(info, rich_help=_wants_rich()) if info else None


def _group(cls: type[TyperGroup], name: str, text: str, module: str = "") -> Any:
    params, callback = common_flags()
    group: Any = cls(
        name=name,
        params=list(params),
        callback=callback,
        help=text,
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    take_text(group)
    if module:
        group.module = module
    return group


def _wants_rich() -> bool:
    """Help is dressed up for a terminal only: Rich costs more to import than all of vtrain."""
    return sys.stdout.isatty()


def open_standard_streams() -> None:
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
    invocation = Invocation()
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
        from vtrain.command_log import write_crash_report

        reported = write_crash_report(argv, error)
    return _report(reported, invocation)


def _dispatch(argv: Sequence[str], invocation: Invocation) -> int:
    if sys.platform == "win32":
        raise VtrainError("vtrain runs on Linux and macOS.", hint="On Windows, use WSL.")
    _check_encoding(argv)
    head, remainder = _split_remainder(argv)
    head = _expanded(head)
    if any(word == "--version" for word in head):
        return _show_version()
    root, invocation.remainder = _group(RootGroup, "vtrain", HELP), remainder
    if "_VTRAIN_COMPLETE" in os.environ or any(word.partition("=")[0] in COMPLETION_FLAGS for word in head):
        return _complete(root, invocation, head)
    code = root.main(args=head, prog_name="vtrain", standalone_mode=False, obj=invocation)
    return code if isinstance(code, int) else 0


def _complete(root: Any, invocation: Invocation, words: list[str]) -> int:
    """What shells have to do with completion: a TAB asks through the environment."""
    from vtrain.commands import shell

    if shell.VARIABLE in os.environ:
        shell.answer(root, invocation)
    else:
        print(shell.set_up(words))
    return 0


def _check_encoding(argv: Sequence[str]) -> None:
    """A job is JSON, and JSON is text: a word that is not UTF-8 could not reach the trainer."""
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
    """With the flags of each `--flags-file` in its place."""
    if not any(word.startswith("--flags-file") for word in words):
        return words
    from vtrain.flags.flags_file import expand_flags_files

    return expand_flags_files(words)


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


def _report(error: VtrainError, invocation: Invocation) -> int:
    from vtrain.output.console import VERBOSITIES, Console

    verbosity = invocation.common.get("verbosity", "")
    console = Console(verbosity=verbosity) if verbosity in VERBOSITIES else Console()
    with suppress(OutputError):  # nobody can be told that nobody can be told
        console.error(error)
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
