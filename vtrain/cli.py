"""The command tree, and the end of every command: only here do errors become exit codes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from typer.core import TyperGroup
from typer.exceptions import Exit, TyperException

from vtrain.errors import (
    HungUp,
    InterruptedByUser,
    OutputError,
    TerminatedBySignal,
    UsageError,
    VtrainError,
)
from vtrain.flags.command import CommandInfo, Invocation, build_command, common_flags, take_text
from vtrain.flags.options import (
    CommonFlags,
    DryRunFlag,
    HelpFlags,
    InitFlags,
    PlaceFlags,
    PruneFlags,
    SchemaFlag,
)
from vtrain.messages.nearest import did_you_mean
from vtrain.output.writing import print_text, set_haste

if TYPE_CHECKING:
    from vtrain.flags.help_page import Page

RUN, INSIDE, SET_UP = "Run and watch jobs", "Look inside a job", "Set up and clean up"
SAME, MORE = "The same as in gcloud ai", "More"
HEADINGS = (RUN, INSIDE, SET_UP, SAME, MORE)
"""The headings of `vtrain --help`, in its order."""


class Listed(NamedTuple):
    """A group or a command of the root: its heading, the module with its table, and its summary."""

    heading: str
    module: str
    summary: str


GROUPS = {
    "custom-jobs": Listed(
        SAME, "vtrain.commands.custom_jobs", "Create, watch and manage custom training jobs."
    ),
    "hp-tuning-jobs": Listed(
        SAME, "vtrain.commands.hp_tuning_jobs", "Create, watch and manage hyperparameter tuning jobs."
    ),
    "training-pipelines": Listed(
        MORE, "vtrain.commands.training_pipelines", "Train, and register the model that comes of it."
    ),
    "persistent-resources": Listed(
        SAME, "vtrain.commands.persistent_resources", "Create and manage machines that stay up between jobs."
    ),
    "models": Listed(SAME, "vtrain.commands.models", "Keep trained models, in versions, and try them."),
    "ai-platform": Listed(
        MORE,
        "vtrain.commands.ai_platform",
        "Run command lines of AI Platform Training, whose service is gone.",
    ),
    "package": Listed(MORE, "vtrain.commands.package", "Package a trainer without running it."),
    "emulator": Listed(MORE, "vtrain.commands.emulator", "Serve APIs of Google Cloud on this machine."),
}
LATE_COMMANDS: dict[str, Listed] = {
    "run": Listed(
        RUN,
        "vtrain.commands.short_commands",
        "Run a script or a folder on this machine, and exit with its exit code.",
    ),
    "submit": Listed(
        RUN,
        "vtrain.commands.short_commands",
        "Create a job from a script or a folder, without waiting for its end.",
    ),
    "ps": Listed(RUN, "vtrain.commands.short_commands", "List jobs, newest first."),
    "logs": Listed(
        RUN,
        "vtrain.commands.short_commands",
        "Print the log of a job. With -f, follow it until the job ends.",
    ),
    "show": Listed(RUN, "vtrain.commands.short_commands", "Print a job."),
    "stop": Listed(RUN, "vtrain.commands.short_commands", "Cancel a job."),
    "rerun": Listed(
        RUN, "vtrain.commands.short_commands", "Run the command line of a job again, with the current files."
    ),
    "rm": Listed(RUN, "vtrain.commands.short_commands", "Delete an ended job with its log and its files."),
    "exec": Listed(INSIDE, "vtrain.commands.look_inside", "Run a command in a running replica of a job."),
    "debug": Listed(INSIDE, "vtrain.commands.short_commands", "Run a script or a folder under a debugger."),
    "cp": Listed(INSIDE, "vtrain.commands.look_inside", "Copy a model or other files of a job."),
    "top": Listed(
        INSIDE, "vtrain.commands.look_inside", "Show the processor, memory and GPU use of running jobs."
    ),
    "dashboard": Listed(
        INSIDE, "vtrain.commands.look_inside", "Show the jobs of this machine in a browser, until Ctrl-C."
    ),
    "tensorboard": Listed(INSIDE, "vtrain.commands.look_inside", "Open TensorBoard on the logs of a job."),
    "shell": Listed(INSIDE, "vtrain.commands.look_inside", "Open a shell in a running replica of a job."),
}
"""Commands without a group whose tables are imported when they are named."""
COMMANDS = {
    "doctor": CommandInfo(
        name="doctor",
        heading=SET_UP,
        handler="vtrain.commands.doctor:doctor",
        summary="Check this machine and the backends, and print how to fix problems.",
        details="Only the chosen backend is checked over the network. The exit code is 1 if it cannot work. "
        "Nothing is changed, and no secret is printed.",
        examples=(
            ("Check the backend that your jobs use", "vtrain doctor"),
            ("Check credentials, APIs and bucket for Vertex AI", "vtrain doctor --backend=vertex"),
        ),
        flags=(PlaceFlags, CommonFlags),
    ),
    "gc": CommandInfo(
        name="gc",
        heading=SET_UP,
        handler="vtrain.commands.gc:gc",
        summary="Remove caches, old jobs and leftovers.",
        details="Removes ended jobs with their logs, and cached environments, packages and images, after 30 "
        "days without use. Removes processes, containers, networks and temporary files of jobs that have "
        "ended. Keeps what a running job uses, and images that you gave a name.",
        examples=(
            ("Show what would be removed, and how much space it takes", "vtrain gc --dry-run"),
            ("Remove everything that was not used for a week", "vtrain gc --older-than=7d"),
        ),
        flags=(PruneFlags, DryRunFlag, CommonFlags),
    ),
    "init": CommandInfo(
        name="init",
        heading=SET_UP,
        handler="vtrain.commands.init:init",
        summary="Write the job of this folder into pyproject.toml, so that 'vtrain run' runs it.",
        details="Looks for the module or script that starts the trainer, and asks at most four questions on "
        "a terminal. The rest of pyproject.toml stays as it is; without that file, it is made.",
        examples=(
            ("Describe the project in this folder", "vtrain init"),
            ("Ask nothing, and only show what would be written", "vtrain init --yes --dry-run"),
        ),
        flags=(InitFlags, DryRunFlag, CommonFlags),
    ),
    "schema": CommandInfo(
        name="schema",
        heading=SET_UP,
        handler="vtrain.commands.schema:schema",
        summary="Print a JSON schema, for editors that complete and check files.",
        examples=(
            ("Save the schema of config files", "vtrain schema custom-job > custom-job.schema.json"),
            ("Save the schema of [tool.vtrain]", "vtrain schema pyproject > vtrain.schema.json"),
        ),
        flags=(SchemaFlag, CommonFlags),
    ),
    "help": CommandInfo(
        name="help",
        heading=MORE,
        handler="vtrain.commands.help:show_help",
        summary="Show the help of a command, or the flags that all commands take.",
        examples=(
            ("Show the flags of a command", "vtrain help custom-jobs create"),
            ("Show the common flags", "vtrain help flags"),
            ("Read the manual", "vtrain help --man | man -l -"),
        ),
        flags=(HelpFlags, CommonFlags),
        fixed={"make_root": lambda: _group(RootGroup, "vtrain", HELP)},
    ),
    "version": CommandInfo(
        name="version",
        heading=MORE,
        handler="vtrain.commands.help:show_version",
        summary="Print the version of vtrain.",
        flags=(CommonFlags,),
    ),
}
"""Commands without a group whose flags cost nothing to import."""
_OTHER_NAMES = {"ml-engine": "ai-platform"}
"""Names of groups that gcloud took besides their own."""
COMPLETION_FLAGS = ("--install-completion", "--show-completion")
_TRACKS = {"ai": {}, "beta": {"api_version": "v1beta1"}, "alpha": {"api_version": "v1beta1"}}
"""Words of gcloud's command line, and the common flags that they stand for: `vtrain beta ai …`."""

HELP = "Run Vertex AI training jobs on this machine, in containers, or on Vertex AI."
EXAMPLES = (
    ("Run a script on this machine", "vtrain run train.py -- --epochs=3"),
    ("Run a job on Vertex AI, and print its log", "vtrain submit train.py --backend=vertex --stream-logs"),
    ("Print the log of the newest job on this machine", "vtrain logs @last"),
)
NOTES = (
    "A 'gcloud ai …' line works with 'vtrain' in place of 'gcloud ai'.",
    "'vtrain help COMMAND' or 'vtrain COMMAND -h' shows the flags and examples of a command. "
    "'vtrain --install-completion' makes bash, zsh or fish complete them.",
)


class Group(TyperGroup):
    """A group that names the nearest command where there is none of that name."""

    examples: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def rows(self) -> dict[str, list[tuple[str, str]]]:
        """The commands and their summaries, below the headings of the help."""
        raise NotImplementedError

    def page(self, ctx: Any) -> Page:
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
        elsewhere = f"See '{ctx.command_path} --help'."
        return did_you_mean(name, self.list_commands(ctx), otherwise=elsewhere)


def late_command(name: str) -> CommandInfo:
    """Import the module of one of LATE_COMMANDS, and return the command."""
    table: tuple[CommandInfo, ...] = import_module(LATE_COMMANDS[name].module).COMMANDS
    return next(info for info in table if info.name == name)


class RootGroup(Group):
    """The groups of commands; a group's module is imported when it is named."""

    examples = EXAMPLES
    notes = NOTES

    def hint(self, ctx: Any, name: str) -> str:
        """Say what to type instead of a word that is no command, or one of a group."""
        group = "custom-jobs"
        if any(info.name == name for info in import_module(GROUPS[group].module).COMMANDS):
            return f"Did you mean vtrain {group} {name}?"
        return super().hint(ctx, name)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the base class's signature
        return [*GROUPS, *LATE_COMMANDS, *COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in _TRACKS:
            ctx.obj.common |= _TRACKS[cmd_name]
            return self
        if cmd_name in COMMANDS:
            return build_command(COMMANDS[cmd_name])
        if cmd_name in LATE_COMMANDS:
            return build_command(late_command(cmd_name))
        cmd_name = _OTHER_NAMES.get(cmd_name, cmd_name)
        if cmd_name not in GROUPS:
            return None
        listed = GROUPS[cmd_name]
        return _group(CommandGroup, cmd_name, listed.summary, listed.module)

    def rows(self) -> dict[str, list[tuple[str, str]]]:
        found: dict[str, list[tuple[str, str]]] = {heading: [] for heading in HEADINGS}
        for name, listed in (LATE_COMMANDS | GROUPS).items():
            found[listed.heading].append((name, listed.summary))
        for name, info in COMMANDS.items():
            found[info.heading].append((name, info.summary))
        return {heading: rows for heading, rows in found.items() if rows}


class CommandGroup(Group):
    """One group; each of its commands is built when it is called.

    The names of some commands are several words: `jobs list` is `list` in the group `jobs`, and `prefix` are
    the words that were typed already.
    """

    module = ""
    prefix = ""

    def _commands(self) -> dict[str, CommandInfo]:
        """The commands by the words that are left to type."""
        commands: tuple[CommandInfo, ...] = import_module(self.module).COMMANDS
        return {
            info.name.removeprefix(self.prefix): info
            for info in commands
            if info.name.startswith(self.prefix)
        }

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(dict.fromkeys(name.partition(" ")[0] for name in self._commands()))

    def hint(self, ctx: Any, name: str) -> str:
        """Say what has replaced a word, where the group's module knows that."""
        replaced: dict[str, str] = getattr(import_module(self.module), "REPLACED", {})
        return replaced.get(self.prefix + name) or super().hint(ctx, name)

    def rows(self) -> dict[str, list[tuple[str, str]]]:
        return {"Commands": [(name, info.summary) for name, info in self._commands().items()]}

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        commands = self._commands()
        if cmd_name in commands:
            return build_command(commands[cmd_name])
        if any(name.startswith(f"{cmd_name} ") for name in commands):
            return _group(CommandGroup, cmd_name, self.help or "", self.module, f"{self.prefix}{cmd_name} ")
        return None


def _group(cls: type[TyperGroup], name: str, text: str, module: str = "", prefix: str = "") -> Any:
    params, callback = common_flags()
    group: Any = cls(
        name=name,
        params=list(params),
        callback=callback,
        help=text,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    take_text(group)
    if module:
        group.module, group.prefix = module, prefix
    return group


def main(argv: Sequence[str], *, is_repeated: bool = False) -> int:
    """Run one command line and return its exit code. Never raises, never shows a traceback.

    `is_repeated` is for the line of a job that is run again.
    """
    from vtrain.command_log import record_command

    with record_command(argv, is_repeated=is_repeated) as record, _signals():
        try:
            record.exit_code = _guarded(argv)
        except KeyboardInterrupt:  # this signal and the next met a command that was telling its error
            record.exit_code = InterruptedByUser.exit_code
        except TerminatedBySignal as signalled:
            record.exit_code = signalled.exit_code
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
        from vtrain import __version__

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
        from vtrain.commands.session import check_current_folder

        try:
            check_current_folder()
        except VtrainError as gone:
            return gone
    place = f": {error.filename}" if error.filename else ""
    return VtrainError(f"{error.strerror or error}{place}.")


def _report(error: VtrainError, invocation: Invocation) -> int:
    from vtrain.output.console import VERBOSITIES, Console

    if any(text in error.message + error.hint for text in ("projects/local/", "custom-jobs list")):
        from vtrain.commands.references import with_shown_names

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
