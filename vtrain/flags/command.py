"""Commands out of plain functions: their parameters are groups of flags, their flags the groups' fields."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from itertools import pairwise
from typing import Any

import msgspec
import typer
from typer.core import TyperCommand

from vtrain.errors import InterruptedByUser, UsageError
from vtrain.flags.options import CommonFlags, FlagGroup

Handler = Callable[..., None]


class Invocation(msgspec.Struct):
    """What a command line says before and beside its flags.

    `common` is what stands before the command; `remainder` what follows `--`, None without one.
    """

    remainder: tuple[str, ...] | None = None
    common: dict[str, Any] = {}


class CommandInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One command of a group: its name, and the function behind it as `module:function`.

    The function's docstring is the command's help; its parameters are groups of flags.
    """

    name: str
    handler: str
    takes_remainder: bool = False

    def load(self) -> Handler:
        """The function; its module is imported now."""
        module, _, function = self.handler.partition(":")
        loaded: Handler = getattr(import_module(module), function)
        return loaded


class FlagCommand(TyperCommand):
    """A command whose flags read their values as gcloud's do."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse `--flag -x`: a value that begins with `-` is written `--flag=-x`."""
        takes_value = {opt for p in self.params for opt in p.opts if not getattr(p, "is_flag", True)}
        for word, following in pairwise([*args, "--"]):
            if word in takes_value and following.startswith("-") and following != "-":
                hint = f"One that begins with '-' is written {word}=-VALUE."
                raise UsageError(f"{word}: expected a value.", hint=hint)
        return super().parse_args(ctx, args)


def build_command(info: CommandInfo, *, rich_help: bool) -> Any:
    """The command object of one command; built when it is called for, and not before."""
    app = typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich" if rich_help else None
    )
    handler = info.load()
    app.command(info.name, cls=FlagCommand, help=inspect.cleandoc(handler.__doc__ or ""))(
        _entry(info, handler)
    )
    return take_text(typer.main.get_command(app))


def take_text(command: Any) -> Any:
    """Take the values of the command's flags as they were parsed.

    All of ours are text, lists of text or switches; Typer's own coercion would import pydantic for
    them, which costs more than everything else together.
    """
    for parameter in command.params:
        _take_text(parameter)
    make_help = command.get_help_option
    command.get_help_option = lambda ctx: _take_text(make_help(ctx))
    return command


def _take_text(parameter: Any) -> Any:
    if not isinstance(parameter.process_value, partial):
        parameter.process_value = partial(_process_value, parameter, parameter.process_value)
    return parameter


def _process_value(parameter: Any, process: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    """The value itself; Typer's way only for a missing one, as its error tells which."""
    if parameter.callback is not None:  # --help
        return process(ctx, bool(value))
    if value is None and parameter.required:
        return process(ctx, value)
    return list(value or ()) if parameter.multiple else value


def _entry(info: CommandInfo, handler: Handler) -> Callable[..., None]:
    groups = _groups(handler)

    def run(ctx: typer.Context, **values: Any) -> None:
        invocation: Invocation = ctx.obj
        _take_common(invocation, values)
        if invocation.remainder is not None and not info.takes_remainder:
            raise UsageError(
                f"{info.name} takes nothing after '--'.", hint=f"Found: {' '.join(invocation.remainder)}"
            )
        arguments = {
            name: group(**{f: values[f] for f in group.__struct_fields__}) for name, group in groups.items()
        }
        remainder = {"remainder": invocation.remainder} if info.takes_remainder else {}
        try:
            handler(**arguments, **remainder)
        except KeyboardInterrupt as interrupt:  # Typer would end here without a word
            raise InterruptedByUser("Interrupted.") from interrupt

    parameters = [inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    parameters += [parameter for group in groups.values() for parameter in _parameters(group)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _take_common(invocation: Invocation, values: dict[str, Any]) -> None:
    """Flags before the command count where the command's own say nothing else."""
    for name, value in invocation.common.items():
        if name in values and values[name] == _default(CommonFlags, name):
            values[name] = value


def common_callback() -> Callable[..., None]:
    """The callback of a group: takes the common flags that stand before the command."""

    def take(ctx: typer.Context, **values: Any) -> None:
        changed = {name: value for name, value in values.items() if value != _default(CommonFlags, name)}
        ctx.obj.common.update(changed)

    parameters = [inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    parameters += _parameters(CommonFlags)
    take.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    take.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return take


def _groups(handler: Handler) -> dict[str, type[FlagGroup]]:
    hints = typing.get_type_hints(handler)
    return {n: h for n, h in hints.items() if isinstance(h, type) and issubclass(h, FlagGroup)}


@cache
def _fields(group: type[FlagGroup]) -> dict[str, Any]:
    """The fields of a group by name; their types are evaluated here and once."""
    return {field.name: field for field in msgspec.structs.fields(group)}


def _default(group: type[FlagGroup], name: str) -> Any:
    field = _fields(group)[name]
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is msgspec.NODEFAULT else field.default


def _parameters(group: type[FlagGroup]) -> list[inspect.Parameter]:
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, kind, default=_default(group, name), annotation=field.type)
        for name, field in _fields(group).items()
    ]
