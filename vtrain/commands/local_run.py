"""`vtrain custom-jobs local-run`: a trainer, here and now, to its end, on this terminal."""

from __future__ import annotations

import errno
import json
import os
import select
import sys
import termios
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from vtrain.backends import SUPERVISE
from vtrain.backends.interface import INTERACTIVE_FLAG
from vtrain.command_log import write_crash_report
from vtrain.commands.conclusion import conclude, how_to_go_on
from vtrain.commands.create import with_key
from vtrain.commands.drafting import (
    PROJECT_HINT,
    launch_prepared,
    prepare_for,
    show_plan,
    with_local_flags,
)
from vtrain.commands.session import Session, find_target, resource_document
from vtrain.commands.watching import CANCEL, Stay, interrupt_action, stay, text_sink
from vtrain.core.compose import JobRequest, make_source
from vtrain.core.job_layers import EVERY_POOL, Layer, at, named
from vtrain.core.preparation import draft_request, packages_place
from vtrain.core.target import LocalCommand
from vtrain.core.verdict import raise_local_verdict
from vtrain.errors import ConfigError, LocalRunError, PackagingError, UsageError, VtrainError
from vtrain.flags.job_options import LocalRunLine, SpecFlags, TrainerFlags
from vtrain.flags.local_options import InteractiveFlag
from vtrain.flags.request import job_line, key_layers
from vtrain.messages.custom_job import CustomJob
from vtrain.messages.log import LogQuery
from vtrain.messages.rules import MAX_DISPLAY_NAME, non_empty_pools
from vtrain.output.log_sinks import PassThroughSink
from vtrain.packaging.source import TrainerSource
from vtrain.runtime.home import Home
from vtrain.runtime.job_order import LentTerminal
from vtrain.runtime.supervisor_process import stand_by
from vtrain.settings import home_folder, user_path

if TYPE_CHECKING:
    from vtrain.messages.resources import Job


LOCAL_RUN = "local-run"


def local_run(given: LocalRunLine, remainder: tuple[str, ...] | None, *, command: str = LOCAL_RUN) -> None:
    """The path of `create` on a local backend, to its end; by the name of the `command` that was typed."""
    gpu, dry_run = given.gpu, given.run.dry_run
    elsewhere = "custom-jobs create" if command == LOCAL_RUN else "submit"
    local_only = LocalCommand(name=command, elsewhere=elsewhere)
    with _around_the_trainer(ConfigError, PackagingError):
        target = find_target(given.common, given.place, local_only=local_only)
        target = with_local_flags(target, given.local)
        terminal = _find_terminal(interactive=given.typing.interactive)
        settings = msgspec.structs.replace(target.settings, terminal=terminal)
        target = msgspec.structs.replace(target, settings=settings)
        if not dry_run:  # its interpreter starts while this command reads and packages the trainer
            stand_by(SUPERVISE, target.settings.home, target.choice.value)
        on_interrupt = interrupt_action(given.interrupt.on_interrupt, default=CANCEL)
        line = job_line(given.spec, given.trainer)
        trainer = _with_folder(line.trainer, line.spec)
        line = msgspec.structs.replace(line, trainer=trainer)
        packages = packages_place(target, trainer.staging_bucket)
        request = line.request(remainder).over(*key_layers(line.spec, target.settings.project))
        draft = draft_request(target, _with_defaults(request, trainer, gpu.output_image_uri or ""))
        draft, _ = with_key(draft, None, always_new=True)
        session, packages, prepared = prepare_for(target, draft, packages, line, given.container, gpu)
        _check_typing(session, prepared.plan.job, given.typing)
    if gpu.docker_run_options:
        session.console.warn("--docker-run-options has no effect, as in gcloud; --mount, --user, … have.")
    show_plan(session, prepared, dry_run=dry_run)
    if dry_run:
        session.console.result(resource_document(prepared.plan.job), "yaml")
        return
    with _around_the_trainer():
        ended = _watch(session, launch_prepared(session, prepared, packages), on_interrupt)
        conclude(session, ended)
        session.console.result(resource_document(ended))
    raise_local_verdict(ended)


def _is_named_file(error: OSError) -> bool:
    """Whether the error is about access to a file that the user named, not to one of vtrain's own."""
    if not isinstance(error, PermissionError) or not error.filename:
        return False
    return not Path(error.filename).absolute().is_relative_to(home_folder().absolute())


@contextmanager
def _around_the_trainer(*refusals: type[VtrainError]) -> Iterator[None]:
    """End with 125 where vtrain fails, so that it is not taken for the trainer's own code.

    The exceptions are `refusals`: a fault of the command itself ends with 1, as in gcloud and in every other
    command. An interrupt keeps its code.
    """
    try:
        yield
    except refusals:
        raise
    except VtrainError as error:
        if error.exit_code != 1:
            raise
        raise LocalRunError(error.message, hint=error.hint) from error
    except OSError as error:
        if refusals and (error.errno == errno.ENAMETOOLONG or _is_named_file(error)):
            raise
        place = f": {error.filename}" if error.filename else ""
        raise LocalRunError(f"{error.strerror or error}{place}.") from error
    except Exception as error:
        report = write_crash_report(sys.argv[1:], error)
        raise LocalRunError(report.message, hint=report.hint) from error


def _with_folder(trainer: TrainerFlags, spec: SpecFlags) -> TrainerFlags:
    """The trainer with its folder: as in gcloud the current one, where only a module or script is named.

    Without either, an executor image is run as it is. Raises UsageError where nothing is named,
    ConfigError for flags that an image which is run as it is has no use for.
    """
    path = trainer.local_package_path
    if spec.worker_pool_spec:
        return trainer
    if trainer.python_module or trainer.script:
        return msgspec.structs.replace(trainer, local_package_path=path or ".")
    if spec.config or (path is not None and user_path(path).is_file()):
        return trainer
    if not trainer.executor_image_uri:
        raise UsageError(
            "What to run is not given.",
            hint="Name a script, vtrain run train.py, or give --python-module=MODULE, --script=FILE or "
            f"--config=FILE.\n{PROJECT_HINT}",
        )
    return _without_trainer(trainer)


def _without_trainer(trainer: TrainerFlags) -> TrainerFlags:
    """The flags of an image that is run as it is."""
    names = [name for name in ("requirements", "extra_packages", "extra_dirs") if getattr(trainer, name)]
    if names:
        raise ConfigError(
            f"--{names[0].replace('_', '-')} goes with a trainer, and none is named.",
            hint="Give --python-module=MODULE or --script=FILE; without either the image runs as it is.",
        )
    if trainer.local_package_path is not None:
        make_source(folder=trainer.local_package_path, python_module="", script="")
    return msgspec.structs.replace(trainer, local_package_path=None)


def _with_defaults(request: JobRequest, trainer: TrainerFlags, output_image_uri: str) -> JobRequest:
    """A name, where none is given; an image alone is a container."""
    if not request.says_what_runs:
        if output_image_uri:
            raise ConfigError("--output-image-uri names a trainer's image, and no trainer is named.")
        image = at(f"jobSpec.{EVERY_POOL}.image", trainer.executor_image_uri)
        request = request.over(Layer(named("--executor-image-uri"), image))
    return msgspec.structs.replace(
        request,
        output_image_uri=output_image_uri or request.output_image_uri,
        fallback_name=request.fallback_name or _name_of(request.source)[:MAX_DISPLAY_NAME],
    )


def _check_typing(session: Session, job: Job, typing: InteractiveFlag) -> None:
    """Raise ConfigError or UsageError where no replica could read the keyboard."""
    if typing.interactive and INTERACTIVE_FLAG not in session.backend.used_flags:
        raise ConfigError(
            f"{INTERACTIVE_FLAG} does not work on {session.backend.name}.",
            hint="Add --backend=process, or open a shell in the running job: vtrain shell @last",
        )
    if typing.interactive and not _is_single(job):
        raise UsageError(f"{INTERACTIVE_FLAG} is for a job of one replica.")


def _watch(session: Session, job: Job, on_interrupt: str) -> CustomJob:
    """Show the output of the job until it ends; return the ended job."""
    single = _is_single(job)
    sink = PassThroughSink(session.console) if single else text_sink(session, stderr=False)
    terminal = session.settings.terminal if single else None
    fifo = Home(session.settings.home).job(job.name).terminal_fifo
    order = Stay(
        console=session.console,
        backend=session.jobs,
        name=job.name,
        sink=sink,
        query=LogQuery(name=job.name, raw=single),
        on_interrupt=on_interrupt,
        slowest_poll=0.02,
        at_each_look=_Window(fifo).keep_up if terminal else None,
        how_to_go_on=partial(how_to_go_on, session),
    )
    with _typing_for(fifo) if terminal and terminal.interactive else nullcontext():
        ended = stay(order)
    assert isinstance(ended, CustomJob)
    return ended


def _is_single(job: Job) -> bool:
    """Whether the job has one replica, which may then have this terminal."""
    assert isinstance(job, CustomJob)
    return sum(pool.replica_count or 1 for _, pool in non_empty_pools(job)) == 1


def _name_of(source: TrainerSource | None) -> str:
    """The name of a run without one: that of its script or folder."""
    if source is None:
        return "local-run"
    return Path(source.script).stem if source.script else source.folder.name


# this terminal, lent to the trainer: its size, what it can do, and the keys that are typed


VARIABLES = ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE")
"""Variables that tell programs what a terminal can do, and whether its user wants colours."""
TELL_AGAIN_SECONDS = 1.0
"""The trainer's terminal may be another one by now: each attempt has its own."""
_KEYS_AT_ONCE = 512  # so that a message, escapes included, is written in one piece
_INPUT_FLAGS, _LOCAL_FLAGS, _KEYS = 0, 3, 6


def _find_terminal(*, interactive: bool) -> LentTerminal | None:
    """This command's terminal, as far as its stdout and stderr are one; None where neither is.

    Raises UsageError for `interactive` without a terminal to type on.
    """
    stdout, stderr = sys.stdout.isatty(), sys.stderr.isatty()
    if interactive and not (stdout and sys.stdin is not None and sys.stdin.isatty()):
        raise UsageError(f"{INTERACTIVE_FLAG} needs a terminal, and stdin or stdout is none.")
    if not (stdout or stderr):
        return None
    columns, lines = _size()
    # An order is JSON, which cannot hold any bytes; no terminal's name has others than ASCII's.
    variables = {
        name: os.environ[name] for name in VARIABLES if name in os.environ and os.environ[name].isascii()
    }
    return LentTerminal(
        columns=columns,
        lines=lines,
        stdout=stdout,
        stderr=stderr,
        interactive=interactive,
        variables=variables,
    )


class _Window:
    """Tells the trainer's terminal how large this one is."""

    def __init__(self, fifo: Path) -> None:
        self._fifo = fifo
        self._told = (0, 0)
        self._told_at = 0.0

    def keep_up(self) -> None:
        """Tell the size if it has changed, and now and then anyway."""
        size, now = _size(), time.monotonic()
        if size == self._told and now - self._told_at < TELL_AGAIN_SECONDS:
            return
        if _send(self._fifo, {"columns": size[0], "lines": size[1]}):
            self._told, self._told_at = size, now


@contextmanager
def _typing_for(fifo: Path) -> Iterator[None]:
    """Pass each key on to the trainer until the block ends; Ctrl-C stays a signal to this command."""
    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    ended = threading.Event()
    reader = threading.Thread(target=_pass_keys, args=(stdin, fifo, ended), name="keys", daemon=True)
    termios.tcsetattr(stdin, termios.TCSADRAIN, _key_by_key(before))
    reader.start()
    try:
        yield
    finally:
        ended.set()
        reader.join()
        with suppress(termios.error):  # the window was closed
            termios.tcsetattr(stdin, termios.TCSADRAIN, before)


def _key_by_key(modes: list[Any]) -> list[Any]:
    """The modes in which each key is read at once, as it is: the trainer's own terminal echoes and edits."""
    changed, keys = [*modes], [*modes[_KEYS]]
    changed[_INPUT_FLAGS] &= ~(termios.ICRNL | termios.INLCR)
    changed[_LOCAL_FLAGS] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
    keys[termios.VMIN], keys[termios.VTIME] = 1, 0
    for key in (termios.VSUSP, termios.VQUIT):  # either would leave the terminal as it is now
        keys[key] = b"\0"
    changed[_KEYS] = keys
    return changed


def _pass_keys(stdin: int, fifo: Path, ended: threading.Event) -> None:
    waiting = b""
    while not ended.is_set():
        if not waiting and select.select([stdin], [], [], 0.05)[0]:
            try:
                waiting = os.read(stdin, _KEYS_AT_ONCE)
            except OSError:
                return
            if not waiting:
                return
        if waiting:
            if _send(fifo, {"keys": waiting.decode("latin-1")}):
                waiting = b""
            else:  # the trainer has not started yet, or is between two attempts
                ended.wait(0.05)


def _send(fifo: Path, message: Mapping[str, object]) -> bool:
    """Whether the trainer's shim takes this message now."""
    try:
        descriptor = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(descriptor, json.dumps(message).encode() + b"\n")
    except OSError:  # full, or the shim has ended just now
        return False
    finally:
        os.close(descriptor)
    return True


def _size() -> tuple[int, int]:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            columns, lines = os.get_terminal_size(stream.fileno())
            if columns and lines:
                return columns, lines
    return 80, 24
