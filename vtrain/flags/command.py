"""Typer commands made of plain functions, whose parameters are groups of flags."""

from __future__ import annotations

import gc
import inspect
import os
import re
import shlex
import typing
from collections.abc import Callable, Collection
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import typer
from typer.core import TyperArgument, TyperCommand, TyperOption
from typer.exceptions import TyperException

from vtrain.errors import UsageError
from vtrain.flags.grammar import POOL_FLAG
from vtrain.flags.options import COMMAND, CommandHelp, CommonFlags, imported
from vtrain.flags.row import REQUIRED, FlagGroup, FlagSet, Row, flag_name, rows_of
from vtrain.messages.nearest import nearest
from vtrain.output.writing import print_text

if TYPE_CHECKING:
    from vtrain.flags.help_page import HelpPage

Handler = Callable[..., None]


class Invocation(msgspec.Struct):
    """The common flags of a command line, and its words after `--`.

    In `common` later flags replace earlier ones. `remainder` is None without a `--`. `job_names` imports the
    module that finds the names of jobs, for a shell that completes the line.
    """

    remainder: tuple[str, ...] | None = None
    common: dict[str, Any] = {}
    job_names: Callable[[], Any] | None = None


class CommandInfo(CommandHelp, frozen=True, kw_only=True):
    """One command of a group: its help, and the function behind it as `module:function`.

    The function's parameters are the groups of `flags`, each of a type of its own, or the `line` as `given`.
    `fixed` are arguments that it is given whatever is typed, such as the kind of its resources. None of this
    needs the function's module, which is imported to run it.
    """

    handler: str
    fixed: dict[str, Any] = msgspec.field(default_factory=dict)

    def load(self) -> Handler:
        """The function; its module is imported now."""
        loaded: Handler = imported(self.handler)
        return loaded


_NEAR = 0.75
"""How much an unknown option has to resemble one of the command's, which is then meant."""
_MOST_OWNERS = 3
"""More commands than these with an option tell nothing of which one is meant."""
_MACHINE_FLAGS = {
    "--replica-count": "--replicas={}",
    "--accelerator-type": "--gpus={}:1, with their number",
    "--accelerator-count": "--gpus=T4:{}, with their type",
}
"""Keys of pools that people take for flags, and the flags that set the same."""
_NUMBER = re.compile(r"-\d[\d.e+-]*")


_AS_TYPED: Any = None
"""The type of a value, for Typer: it is taken as it was typed."""


class _AsTyped:
    """A parameter whose value is text, a list of text or a switch, as it was parsed.

    Typer's own coercion would import pydantic for them, which costs more than everything else together.
    """

    def process_value(self: Any, ctx: Any, value: Any) -> Any:
        """Return the value. Raises UsageError where it is missing."""
        if self.required and value is None:
            message = f"Missing argument {self.get_error_hint()}."
            raise UsageError(message, hint=f"See '{ctx.command_path} --help'.")
        if self.callback is not None:  # --help
            return self.callback(ctx, self, bool(value))
        return list(value or ()) if self.multiple or self.nargs == -1 else value


class _Option(_AsTyped, TyperOption):
    """A flag."""


class _Argument(_AsTyped, TyperArgument):
    """A word without a flag."""


class WithHelp:
    """A command or group with the option --help."""

    def get_help_option(self, ctx: Any) -> Any:  # noqa: ARG002 - Typer's signature
        """Return the option."""
        return _HELP_OPTION


class FlagCommand(WithHelp, TyperCommand):
    """A command whose flags read their values as gcloud's do."""

    info: CommandInfo
    allow_extra_args = True  # they are refused below, in words that help

    def page(self, ctx: Any) -> HelpPage:
        """Return the help of the command."""
        from vtrain.flags.help_page import command_page

        return command_page(self.info, self.params, ctx.command_path)

    def get_help(self, ctx: Any) -> str:
        """Return the help as text, laid out for stdout."""
        from vtrain.flags.help_page import shown

        return shown(self.page(ctx))

    def invoke(self, ctx: Any) -> None:
        """Read the flags, and call the command's function."""
        info, invocation = self.info, ctx.obj
        given = _given(ctx, ctx.params) & rows_of(CommonFlags).keys()
        invocation.common |= {name: ctx.params[name] for name in given}
        values = ctx.params | {name: value for name, value in invocation.common.items() if name in ctx.params}
        if invocation.remainder is not None and not info.takes_remainder:
            raise UsageError(
                f"{info.name} takes nothing after '--'.", hint=f"Found: {' '.join(invocation.remainder)}"
            )
        handler = info.load()
        arguments = {name: _read(kind, values) for name, kind in taken_flags(info, handler).items()}
        remainder = {"remainder": invocation.remainder} if info.takes_remainder else {}
        gc.freeze()  # all objects so far live to the end
        gc.enable()  # and from here on a command may run for days
        handler(**arguments, **remainder, **info.fixed)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse `--flag -x`: a value that begins with `-` is written `--flag=-x`."""
        takes_value = {opt for p in self.params for opt in p.opts if not getattr(p, "is_flag", True)}
        for word, following in pairwise([*args, "--"]):
            if ctx.resilient_parsing:  # a shell that completes the line
                break
            if word in takes_value and following.startswith("-") and following != "-":
                joined = f"{word}=" if word.startswith("--") else word
                hint = f"One that begins with '-' is written {joined}-VALUE."
                raise UsageError(f"{word}: expected a value.", hint=hint)
        try:
            super().parse_args(ctx, _without_opposites(args, self.params))
        except TyperException as error:
            option = getattr(error, "option_name", "")
            if not option.startswith("-"):
                raise
            known = {opt for p in self.params for opt in p.opts}
            if not hasattr(error, "possibilities"):  # a switch, with a value
                value = next(word for word in args if word.startswith(f"{option}=")).partition("=")[2]
                near = _meant(option, takes_value)
                hint = f"Did you mean {near}={shlex.quote(value)}?" if near else f"Write {option} alone."
                raise UsageError(error.format_message(), hint=hint) from None
            hint = f"See '{ctx.command_path} --help'."
            if self.info.takes_remainder:
                hint = self._place_of(_with_values(option, args, known), ctx)
            # Of the names that the parser offers, most share two letters with what was meant.
            near = _meant(option, known) or nearest(option, error.possibilities or (), cutoff=_NEAR)
            message = f"No such option: {option}" + (f" (did you mean {near}?)" if near else "")
            if not near and not self.info.takes_remainder and (others := _commands_with(option, ctx)):
                hint = f"{' and '.join(others)} {'has' if len(others) == 1 else 'have'} {option}. {hint}"
            raise UsageError(message, hint=hint) from None
        if ctx.args and not ctx.resilient_parsing:
            before = next((one for one, word in pairwise(args) if word == ctx.args[0]), "")
            if near := _meant(before, takes_value):
                hint = f"Did you mean {near}={shlex.quote(ctx.args[0])}?"
                raise UsageError(f"{self.info.name} does not take {ctx.args[0]!r}.", hint=hint)
            raise self._extra_words(ctx)
        return []

    def _place_of(self, words: list[str], ctx: Any) -> str:
        """A hint about the place of words that are no flag: with the machines, or with the trainer."""
        word = words[0]
        if word.partition("=")[0] == POOL_FLAG:
            return "The pools of a trial are described in the file of --config: trialJobSpec.workerPoolSpecs"
        key, _, value = word.partition("=")
        if key in _MACHINE_FLAGS and any(POOL_FLAG in param.opts for param in self.params):
            return f"Write {_MACHINE_FLAGS[key].format(value or ''.join(words[1:2]) or 'VALUE')}"
        if os.path.exists(word):  # noqa: PTH110 - as in `_extra_words`
            return f"If it is the file, write {shlex.quote(f'./{word}')}"
        if word == "--watch" and self.info.remainder != COMMAND:
            return "vtrain rerun JOB --watch runs a job again after each saved file."
        whose = "the command" if self.info.remainder == COMMAND else "the trainer"
        return f"If it is for {whose}, put it after --: {ctx.command_path} … -- {shlex.join(words)}"

    def _extra_words(self, ctx: Any) -> UsageError:
        """The error for words that are neither flags nor arguments of the command."""
        word, rest = ctx.args[0], shlex.join(ctx.args)
        message = f"{self.info.name} does not take {', '.join(map(repr, ctx.args))}."
        if not self.info.takes_remainder:
            return UsageError(message, hint=f"See '{ctx.command_path} --help'.")
        if self.info.remainder == COMMAND:
            return UsageError(message, hint=f"The command stands after --: {ctx.command_path} … -- {rest}")
        if any(param.param_type_name == "argument" for param in self.params):
            return UsageError(
                message, hint=f"The trainer's own arguments stand after --: {ctx.command_path} … -- {rest}"
            )
        path = shlex.quote(word)
        is_folder = os.path.isdir(word)  # noqa: PTH112 - pathlib costs more to import than the rest of a start
        place = " --local-package-path=." if self.info.name == "create" else ""
        flags = (
            f"--local-package-path={path} --python-module=MODULE" if is_folder else f"--script={path}{place}"
        )
        if self.info.name == "create" and not (ctx.params.get("display_name") or ctx.params.get("config")):
            name = os.path.splitext(os.path.basename(os.path.abspath(word)))[0]  # noqa: PTH100, PTH119, PTH122
            flags += f" --display-name={shlex.quote(name)}"
        short = "vtrain submit" if self.info.name == "create" else "vtrain run"
        rest = f"{path} -m MODULE" if is_folder else path
        others = "" if "hp-tuning-jobs" in ctx.command_path else f", or: {short} {rest}"
        return UsageError(message, hint=f"Write {flags}{others}")


def _commands_with(option: str, ctx: Any) -> list[str]:
    """The short commands that have an option; none where they are many."""
    root = ctx.find_root()
    commands = ((name, root.command.get_command(root, name)) for name in root.command.list_commands(root))
    found = [
        f"'vtrain {name}'" for name, each in commands if each and any(option in p.opts for p in each.params)
    ]
    return found if len(found) <= _MOST_OWNERS else []


def _meant(option: str, flags: Collection[str]) -> str:
    """The one of these flags that an option of another program means; empty if there is none."""
    from vtrain.flags.synonyms import FLAGS, meant

    return meant(option, FLAGS, lambda target: target.partition("=")[0] in flags)


def _with_values(option: str, args: list[str], known: set[str]) -> list[str]:
    """The option as it was typed, with its value, and the unknown options that follow with theirs."""
    is_short = not option.startswith("--")
    start = next(
        (
            n
            for n, word in enumerate(args)
            if (word if is_short else word.partition("=")[0]).startswith(option)
        ),
        len(args),
    )
    is_first = all(word.startswith("-") for word in args[:start])
    words: list[str] = []
    for word in args[start:]:
        is_value = not word.startswith("-") or _NUMBER.fullmatch(word)
        if word == "--" or word.partition("=")[0] in known:
            break
        if is_value and not (words[-1:] and words[-1].startswith("-") and "=" not in words[-1]):
            break  # the second word after an option belongs to vtrain
        if is_value and is_first and os.path.isfile(word) and word.endswith((".py", ".sh")):  # noqa: PTH113
            break  # so does the script, where none stands before
        words.append(word)
    return words or [option]


def _without_opposites(args: list[str], params: list[Any]) -> list[str]:
    """The words without `--no-x` for switches that know only `--x`; of the two, the later counts."""
    switches = {
        opt for p in params if getattr(p, "is_flag", False) and not p.secondary_opts for opt in p.opts
    }
    kept: list[str] = []
    for word in args:
        opposite = f"--{word[5:]}" if word.startswith("--no-") else ""
        if opposite in switches:
            kept = [earlier for earlier in kept if earlier != opposite]
        else:
            kept.append(word)
    return kept


def build_command(info: CommandInfo) -> Any:
    """The command object of one command; built when it is called for, and not before."""
    params = [_parameter(field, row) for group in info.groups for field, row in rows_of(group).items()]
    command: Any = FlagCommand(
        name=info.name, params=params, help=inspect.cleandoc(info.summary), rich_markup_mode=None
    )
    command.info = info
    return command


def _given(ctx: Any, values: Collection[str]) -> set[str]:
    """The flags on the command line, also those that are given their default."""
    return {name for name in values if ctx.get_parameter_source(name).name == "COMMANDLINE"}


@cache
def common_flags() -> tuple[Any, ...]:
    """The parameters of every group, made once."""
    return tuple(_parameter(field, row) for field, row in rows_of(CommonFlags).items())


def take_common(ctx: Any) -> None:
    """Keep the common flags that stand before a command."""
    ctx.obj.common.update({name: ctx.params[name] for name in _given(ctx, ctx.params)})


def taken_flags(info: CommandInfo, handler: Handler) -> dict[str, type[FlagGroup | FlagSet]]:
    """The flags of a command by the names of its function's parameters.

    A set is called `given`. The type of a parameter for a group may be more general than the group.
    """
    if info.line:
        return {"given": imported(info.line)}
    hints = typing.get_type_hints(handler)
    wanted = {n: h for n, h in hints.items() if isinstance(h, type) and issubclass(h, FlagGroup)}
    return {
        name: kind if kind in info.flags else next(each for each in info.flags if issubclass(each, kind))
        for name, kind in wanted.items()
    }


def _read(kind: type[FlagGroup | FlagSet], values: dict[str, Any]) -> FlagGroup | FlagSet:
    """The values of a group's flags, or of all groups of a set."""
    if issubclass(kind, FlagSet):
        return kind(**{name: _read(below, values) for name, below in kind.__annotations__.items()})
    return kind(**{name: values[name] for name in kind.__struct_fields__})


def _parameter(field: str, row: Row) -> Any:
    """A row as Typer takes it."""
    is_list, is_required = isinstance(row.default, list), row.default is REQUIRED
    of_all: dict[str, Any] = {
        "metavar": row.metavar or None,
        "help": row.help,
        "autocompletion": partial(_offered, row.offer),
        "required": is_required,
        "default": None if is_required else row(),
        "type_descriptor": _AS_TYPED,
    }
    if row.is_argument:
        return _Argument(param_decls=[field], nargs=-1 if is_list else None, **of_all)
    name = flag_name(field, row)
    names = f"{name}/--no-{name[2:]}" if row.has_opposite else name
    return _Option(
        param_decls=[field, names, *filter(None, [row.short])],
        is_flag=row.is_switch,
        multiple=is_list,
        hidden=row.hidden,
        rich_help_panel=row.panel or None,
        **of_all,
    )


def _offered(offer: Callable[..., Any] | None, ctx: Any, args: list[str], incomplete: str) -> Any:
    """The words that a shell offers for a value."""
    completion = typer.main.get_param_completion(offer)
    return completion(ctx, args, incomplete) if completion is not None else []


def _show_help(ctx: Any, _parameter: Any, value: bool) -> None:
    """Print the help as every command prints: Typer's own option knows no full disk."""
    if value and not ctx.resilient_parsing:
        print_text(ctx.get_help())
        ctx.exit()


HELP_NAMES = ["-h", "--help"]
_HELP_OPTION = _Option(
    param_decls=["help", *HELP_NAMES],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    help="Show this message and exit.",
    callback=_show_help,
    type_descriptor=_AS_TYPED,
)
