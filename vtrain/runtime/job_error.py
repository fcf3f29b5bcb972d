"""The `error` of a job: code and message in Vertex AI's words, and details that machines can read."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import msgspec

from vtrain.errors import ConfigError, PackagingError
from vtrain.failure import NamedBy, Traceback, hint, last_traceback, missing_module
from vtrain.messages.structs import Status
from vtrain.runtime.folder import FOLDER_REMOVED, LOST, UNREADABLE_EXIT, JobFolder, ReplicaExit, ReplicaFolder
from vtrain.runtime.job_order import JobOrder
from vtrain.runtime.process.journal import STDERR, STDOUT
from vtrain.sizes import size_in_words

CANCELLED_CODE = 1
USER_ERROR_CODE = 3
RESOURCE_EXHAUSTED_CODE = 8
INTERNAL_CODE = 13
CANCEL_MESSAGE = "CANCELED"
TIMEOUT_MESSAGE = "CANCELED: the job ran longer than its timeout of {timeout}."
"""The text for a job that ran too long. Vertex AI's own is not documented."""
OUT_OF_MEMORY_MESSAGE = "Replicas low on memory: {pool}. Specify a machine with larger memory and try again."
MAX_QUOTED_CHARACTERS = 4000
"""How much of a traceback a message quotes; longer ones are cut in the middle."""
TAIL_BYTES = 128 * 1024

_TYPE = "type.googleapis.com/google.rpc."
_INSTALLED = re.compile(r".*/(?:site-packages|files|work|usr/app|opt/vtrain/site)/(.+)")
_PACKAGED = re.compile(r".*/(?:site-packages|work|usr/app|opt/vtrain/site)/((?!vtrain_script/).+)")
_SGR = re.compile(r"\x1b\[[0-9;:]*m")  # Python colours its tracebacks on a terminal
_NO_FILE = re.compile(r"FileNotFoundError: \[Errno 2\] [^']{0,300}'([^']+)'$")
_FRAME = re.compile(r'(File ")([^"]+)(", line \d+.*)')


def error(code: int, message: str, reason: str, **metadata: str) -> Status:
    """An error with a `google.rpc.ErrorInfo`, from whose metadata what is empty is left out."""
    kept = {key: value for key, value in metadata.items() if value}
    info = {"@type": _TYPE + "ErrorInfo", "reason": reason, "domain": "vtrain", "metadata": kept}
    return Status(code=code, message=message, details=(info,))


def replica_failed(
    order: JobOrder, folder: JobFolder, attempt: ReplicaFolder, end: ReplicaExit, *, restarts: int = 0
) -> Status:
    """A replica ended with another code than 0, or could not be started. `restarts` are the job's."""
    found = _failure_to_start(folder, attempt, end) or _failure_of_trainer(order, folder, attempt, end)
    used = {
        "peakMemoryBytes": str(end.peak_memory_bytes) if end.peak_memory_bytes else "",
        "cpuSeconds": f"{end.cpu_seconds:.1f}" if end.cpu_seconds else "",
        "restarts": str(restarts) if restarts else "",
    }
    found.details[0]["metadata"].update({key: value for key, value in used.items() if value})
    return found


def _failure_to_start(folder: JobFolder, attempt: ReplicaFolder, end: ReplicaExit) -> Status | None:
    """The error of a replica that did not start, or did not end by itself; None for any other."""
    replica, log, code = attempt.name, str(folder.log(attempt.name)), ""
    status, reason = INTERNAL_CODE, "SUPERVISION_LOST"
    if end.message:
        status, reason, code = USER_ERROR_CODE, "START_FAILED", str(end.code)
        message, advice = f"The replica {replica} could not be started. {end.message}.", hint("", end.code)
        if os.strerror(errno.E2BIG).casefold() in end.message.casefold():
            what = "its arguments and variables are too long for this system"
            message = f"The replica {replica} could not be started: {what}."
            advice = "Write long values into a file, and pass its path to the trainer."
    elif end.interruption == LOST:
        message = (
            f"The replica {replica} ended without an exit code: this machine was restarted meanwhile, or the "
            "process that watched over the replica was killed."
        )
        advice = "Submit the job again."
    elif end.interruption == FOLDER_REMOVED:
        status = USER_ERROR_CODE
        message = f"The folder of the replica {replica} was removed while it ran: how it ended is not known."
        advice = "Let the trainer remove its own files only, not the folders above its working directory."
    elif end.interruption == UNREADABLE_EXIT:
        path = attempt.path / "exit.json"
        message = f"The exit code of the replica {replica} is not known: {path} is damaged."
        advice = "Look at the log, and submit the job again."
    elif end.interruption:
        reason, code = "REPLICA_INTERRUPTED", str(end.code)
        message = f"The replica {replica} was ended from outside (exit code {end.code}): {end.interruption}."
        advice = "The trainer itself did not fail: submit the job again."
    else:
        return None
    return error(status, message, reason, replica=replica, exitCode=code, log=log, hint=advice)


def _failure_of_trainer(
    order: JobOrder, folder: JobFolder, attempt: ReplicaFolder, end: ReplicaExit
) -> Status:
    replica, source_folder = attempt.name, order.source_folder
    log = folder.log(replica)
    text, trace = _last_words(folder, attempt)
    own = ""
    if trace is not None:
        own = (
            _own_file(trace, order, folder) or sibling_hint(trace, source_folder) or _is_active(trace, order)
        )
        trace = in_source(trace, source_folder)
    metadata = {
        "replica": replica,
        "exitCode": str(end.code),
        "log": str(log),
        "signal": str(end.signal) if end.signal else "",
        "logLostBytes": str(end.log_lost_bytes) if end.log_lost_bytes else "",
    }
    if trace is not None and trace.file:
        metadata |= {"file": trace.file, "line": str(trace.line)}
    metadata["hint"] = own or hint(
        trace.exception if trace is not None else text[-4096:], end.code, _named_by(order)
    )
    if end.oom and end.peak_memory_bytes and not own:
        size = size_in_words(end.peak_memory_bytes)
        metadata["hint"] = (
            f"Memory ran out at {size}: allow more (--memory, or a larger machine type), or use less."
        )
    if end.code == 137 and end.oom:
        message = OUT_OF_MEMORY_MESSAGE.format(pool=replica.rpartition("-")[0])
        found = error(RESOURCE_EXHAUSTED_CODE, message, "OUT_OF_MEMORY", **metadata)
    else:
        quoted = _cut("\n".join(trace.lines) if trace else text[-MAX_QUOTED_CHARACTERS:].strip("\n"))
        message = (
            f"The replica {replica} exited with a non-zero status of {end.code}. Termination reason: Error. "
            f"\n{quoted}\n\nTo find out more about why your job exited please check the logs: {log}"
        )
        found = error(USER_ERROR_CODE, message, "REPLICA_FAILED", **metadata)
    if trace is None:
        return found
    debug = {"@type": _TYPE + "DebugInfo", "stackEntries": list(trace.lines)}
    return Status(code=found.code, message=message, details=(*found.details, debug))


def _last_words(folder: JobFolder, attempt: ReplicaFolder) -> tuple[str, Traceback | None]:
    """The end of what the attempt wrote to stderr, and its last traceback, wherever it stands.

    On a terminal stderr is stdout, and programs colour what they write there.
    """
    from vtrain.runtime.log.journal_reader import without_escapes
    from vtrain.runtime.log.log_reader import read_tail  # most jobs end without

    errors, output = (
        _SGR.sub("", read_tail(folder.logs, attempt.name, stream, TAIL_BYTES, attempt.attempt))
        for stream in (STDERR, STDOUT)
    )
    if folder.terminal_fifo.exists():
        errors, output = without_escapes(errors), without_escapes(output)
        return errors or output, last_traceback(errors) or last_traceback(output)
    return errors, last_traceback(errors) or last_traceback(output)


def environment_failed(folder: JobFolder, message: str, advice: str) -> Status:
    """The trainer's environment could not be made."""
    log = str(folder.log("service"))
    return error(USER_ERROR_CODE, message, "ENVIRONMENT_FAILED", log=log, hint=advice or hint(message, None))


def machine_restarted(folder: JobFolder) -> Status:
    """The machine was started anew while the job ran; a training is not begun again by somebody who looks."""
    log, message = str(folder.log("service")), "This machine was restarted before the job had ended."
    return error(INTERNAL_CODE, message, "MACHINE_RESTARTED", log=log, hint="Submit the job again.")


def home_moved(folder: JobFolder, home: Path) -> Status:
    """The job was submitted to another home, to which all its paths lead, and its folder is not there."""
    message = (
        f"The job was submitted to the home {home}, and cannot go on in {folder.home}: "
        "its home was moved before the job had ended."
    )
    log = str(folder.log("service"))
    return error(USER_ERROR_CODE, message, "HOME_MOVED", log=log, hint="Submit the job again.")


def file_damaged(folder: JobFolder, path: Path) -> Status:
    """A file without which the job cannot go on is damaged or missing, or the whole folder is gone."""
    if not folder.path.exists():
        message = f"The job's folder {folder.path} was removed before the job had ended."
        return error(INTERNAL_CODE, message, "SUPERVISION_LOST")
    log = folder.log("service")
    if path.is_relative_to(folder.path):
        path = path.relative_to(folder.path)
    return error(
        INTERNAL_CODE,
        f"The job's folder {folder.path} is damaged: its {path} cannot be read.",
        "SUPERVISION_LOST",
        hint="Submit the job again.",
        log=str(log) if log.exists() else "",  # somebody may have removed it, too
    )


def engine_failed(folder: JobFolder, fault: Exception) -> Status:
    """vtrain itself could not go on: by a fault of its own, or because the system refused it something."""
    message = f"vtrain itself failed while it ran the job: {fault!r}."
    if isinstance(fault, OSError) and fault.strerror:
        where = f" ({fault.filename})" if fault.filename else ""
        message = f"vtrain could not go on with the job: {fault.strerror}{where}."
    return error(INTERNAL_CODE, message, "ENGINE_FAILED", log=str(folder.path / "supervisor.log"))


def timed_out(timeout: str) -> Status:
    """The job ran longer than `scheduling.timeout`."""
    return error(CANCELLED_CODE, TIMEOUT_MESSAGE.format(timeout=timeout), "TIMEOUT", timeout=timeout)


def _named_by(order: JobOrder) -> NamedBy:
    if order.setting.active_python:
        return NamedBy.ENVIRONMENT
    if order.in_pool_spec:
        return NamedBy.POOL
    return NamedBy.FLAGS if order.source_folder else NamedBy.OTHER


def _cut(text: str) -> str:
    """A long traceback cut in the middle, its first line and its end kept."""
    if len(text) <= MAX_QUOTED_CHARACTERS:
        return text
    head, _, rest = text.partition("\n")
    return f"{head}\n  [...]\n{rest[-MAX_QUOTED_CHARACTERS:].partition(chr(10))[2]}"


def in_source(trace: Traceback, source_folder: str) -> Traceback:
    """The traceback with the paths of the user's own files, wherever those are still there."""
    if not source_folder:
        return trace
    lines = tuple(
        _FRAME.sub(lambda m: m[1] + _path(m[2], source_folder) + m[3], line) for line in trace.lines
    )
    return msgspec.structs.replace(trace, lines=lines, file=_path(trace.file, source_folder))


def _path(file: str, source_folder: str) -> str:
    path, comma, cell = file.partition(", cell ")  # of a notebook
    match = _INSTALLED.fullmatch(path)
    for root in (Path(source_folder), Path(source_folder) / "src") if match else ():
        if match and (root / match[1]).is_file():
            return f"{root / match[1]}{comma}{cell}"
    return file


def _own_file(trace: Traceback, order: JobOrder, folder: JobFolder) -> str:
    """What to do about a module or a file that was not found, and is one of the trainer's; or nothing."""
    missing, lost = missing_module(trace.exception), _NO_FILE.search(trace.exception)
    if not (order.source_folder and (missing or lost)):
        return ""
    from vtrain.packaging.archive import packed_files
    from vtrain.runtime.working_folder import kept_files

    archive = kept_files(folder)
    try:
        packed = {str(one.path): one.of_script for one in packed_files(Path(archive))} if archive else {}
    except (PackagingError, OSError):
        return ""
    advice = _own_module(trace, missing, packed, order) if missing else ""
    if lost and packed:
        advice = _left_out(lost[1], packed, Path(order.source_folder))
    return f"{advice}." if advice else ""


def _is_active(trace: Traceback, order: JobOrder) -> str:
    """The advice about a module that the active Python has, and the environment lacks; or nothing."""
    top = missing_module(trace.exception).partition(".")[0]
    if not (top and order.setting.has_environment):
        return ""
    from vtrain.runtime.environments.active_python import active_python, view_of

    try:
        python = active_python(os.environ, order.command.folder if order.command is not None else None)
        if view_of(python, (top,)).missing:
            return ""
    except ConfigError:
        return ""
    advice = hint(trace.exception, None, _named_by(order))
    return f"Your active Python, {python}, has `{top}`: take --environment=current to run there. Or: {advice}"


def _own_module(trace: Traceback, module: str, packed: dict[str, bool], order: JobOrder) -> str:
    from vtrain.packaging.module_imports import Import, Modules, TrainerImports
    from vtrain.packaging.own_modules import own_module

    frames = (_FRAME.search(line) for line in trace.lines)
    ran = (_INSTALLED.fullmatch(frame[2]) for frame in frames if frame)
    run = [match[1] for match in ran if match and match[1] in packed]
    if not run:
        return ""
    script = run[0] if packed[run[0]] else ""
    modules = Modules(frozenset(packed), (script.rpartition("/")[0],))
    if modules.exists(module.partition(".")[0]):
        return ""
    trainer = TrainerImports(
        imports=(),
        modules=modules,
        folder=order.source_folder,
        entry=run[0],
        script=script,
        in_pool_spec=order.in_pool_spec,
    )
    here = Path(order.command.folder if order.command else order.source_folder)
    return own_module(Import(path=run[-1], line=0, module=module), trainer, here)


def _left_out(path: str, packed: dict[str, bool], source: Path) -> str:
    """The advice about a file of the trainer's folder that was looked for in vain; or nothing."""
    from vtrain.packaging.ignore_files import IGNORE_FILES

    installed = _PACKAGED.fullmatch(path)
    below = installed[1] if installed else os.path.normpath(path)
    name = next((name for name in (below, f"src/{below}") if (source / name).is_file()), "")
    if not name or below.startswith(("/", "../")):
        return ""
    if (source / name).is_symlink() and name not in packed:
        return f"`{name}` is a link to a file outside, which is not packed; put a copy in its place"
    if name not in packed:
        by = next((file for file in IGNORE_FILES if (source / file).is_file()), "")
        why = f"{by} leaves it out" if by else "an ignore file leaves it out, or the script is packed alone"
        return f"`{name}` is in the folder, and not in the package: {why}"
    if not installed:
        return ""  # it was in the working directory: the trainer has changed to another
    return (
        f"`{name}` is in the folder, and its own build leaves it out: name it among the package's data, as "
        "in package-data of setuptools"
    )


def sibling_hint(trace: Traceback, source_folder: str) -> str:
    """The statement to write instead of a bare import of a module beside the importing file; or nothing.

    `trace` is as Python wrote it, with the paths of the code that ran.
    """
    top = missing_module(trace.exception).partition(".")[0]
    match = _PACKAGED.fullmatch(trace.file)
    package = ".".join(Path(match[1]).parent.parts) if match else ""
    if not (top and package):
        return ""
    beside = Path(_path(trace.file, source_folder) if source_folder else trace.file).with_name(top)
    if not (beside.with_suffix(".py").is_file() or beside.is_dir()):
        return ""
    return f"`{top}` is a module of {package}: write `from {package} import {top}`."
