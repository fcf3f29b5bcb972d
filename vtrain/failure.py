"""The causes of a trainer's failure, read from its exit code and its output. Pure functions over text."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from enum import Enum

import msgspec

from vtrain.packaging.distributions import known_distribution
from vtrain.program_output import TRACEBACK_HEAD

_CHAIN = re.compile(
    r"(?:During handling of the above exception, another exception occurred|"
    r"The above exception was the direct cause of the following exception):"
)
_ORIGINAL = "Original "
"""The prefix of a traceback that torch quotes when it raises another process's error again."""
_GROUP_HEAD = "  + Exception Group " + TRACEBACK_HEAD
_GROUP_END = "    +------------------------------------"
_TREE = re.compile(r" +[|+]")
_CARETS = re.compile(r"[ \t~^]+$")
_FRAME = re.compile(r'  File "(?P<file>[^"]+)", line (?P<line>\d+)')
_EXCEPTION = re.compile(r"[^\W\d][\w.<>]*(?:: .*|:)?$")
_SITE = re.compile(r".*/(?:site|dist)-packages/[^/]+")
_LIBRARY = re.compile(
    r"/lib(?:64)?/python\d[\d.]*/(?!site-packages|dist-packages)|^<|/runpy\.py$|\.p(?:yx|xi|xd)$"
)
"""Python's library, and what Cython compiled: `pandas/_libs/index.pyx`."""
_RUNPY = re.compile(r"^<frozen runpy>$|/runpy\.py$")
_OWNER = re.compile(
    r"(?:/(?:site|dist)-packages/|/lib(?:64)?/python\d[\d.]*/(?!site-|dist-)|^<frozen |^(?=\w))([^/.>]+)"
)
"""The package that a frame belongs to; Cython names its files from the package on."""
_MEANINGS = {
    0: "success",
    1: "an uncaught exception, or sys.exit(1)",
    2: "bad arguments, or a script that its shell cannot read",
    125: "the container could not be created",
    126: "the program could not be executed",
    127: "the program was not found",
    130: "interrupted (SIGINT)",
    134: "aborted (SIGABRT): a failed assertion in native code",
    137: "killed (SIGKILL): out of memory, or stopped from outside",
    139: "a crash in native code (SIGSEGV)",
    143: "terminated (SIGTERM)",
}


class NamedBy(str, Enum):
    """The place where a command line named its trainer: flags of its own, --worker-pool-spec, or neither.

    ENVIRONMENT stands for all of them where the trainer ran in an environment of the user's own.
    """

    FLAGS = "flags"
    POOL = "pool"
    ENVIRONMENT = "environment"
    OTHER = ""


class Traceback(msgspec.Struct, frozen=True, kw_only=True):
    """The last traceback in a text, with the tracebacks that it is chained to.

    `file` and `line` are the last frame inside the trainer's own code, outside the standard library and
    dependencies; empty and 0 without such a frame.
    """

    lines: tuple[str, ...]
    exception: str
    file: str = ""
    line: int = 0


class _Head(msgspec.Struct, frozen=True):
    """The first line of a traceback: its number, and the prefix of each line (`[rank0]: `).

    An exception in a destructor or at exit is ignored: Python prints it, often last, and goes on.
    """

    number: int
    prefix: str
    is_group: bool
    is_ignored: bool


def last_traceback(text: str) -> Traceback | None:
    """The last traceback that Python printed, in full, or None."""
    lines = text.replace("\r\n", "\n").split("\n")
    heads = _heads(lines)
    while heads:
        last = start = heads.pop()
        while heads and _is_chained(lines, heads[-1], start):
            start = heads.pop()
        if not start.is_ignored:
            break
    else:
        return None
    end = _end(lines, last)
    for head in reversed(heads[:-1]):
        if not _is_chained(lines, head, start):
            break
        start = head
    kept = [line.removeprefix(last.prefix).rstrip("\r") for line in lines[start.number : end]]
    kept[0] = kept[0].removeprefix(_ORIGINAL) if start.number == last.number else kept[0]
    own = kept[last.number - start.number :]
    bare = [line[4:] for line in own] if last.is_group else own
    # A traceback that was raised again is quoted in the message of the traceback with the first frame.
    is_raised_again = start.number < last.number and kept[last.number - start.number].startswith(_ORIGINAL)
    file, number = _own_frame(bare, kept if is_raised_again else bare)
    exception = next((line.strip() for line in bare[1:] if _EXCEPTION.match(line)), "")
    return Traceback(lines=tuple(kept), exception=exception, file=file, line=number)


def _heads(lines: list[str]) -> list[_Head]:
    """The tracebacks of a text; a group of exceptions counts as one."""
    heads: list[_Head] = []
    inside = 0
    for number, line in enumerate(lines):
        if number < inside or not line.endswith(TRACEBACK_HEAD):
            continue
        is_group = line.endswith(_GROUP_HEAD)
        prefix = line.removesuffix(_GROUP_HEAD if is_group else TRACEBACK_HEAD)
        following = lines[number + 1] if number + 1 < len(lines) else prefix
        if not following.startswith(prefix):  # the prefix belongs to this line alone
            prefix = prefix.removesuffix(_ORIGINAL)
            prefix = prefix if following.startswith(prefix) else ""
        before = lines[number - 1] if number else ""
        heads.append(_Head(number, prefix, is_group, before.startswith(f"{prefix}Exception ignored ")))
        inside = _end(lines, heads[-1]) if is_group else 0
    return heads


def _end(lines: list[str], head: _Head) -> int:
    """The index after the last line of a traceback, which is its exception and the indented lines below."""
    return _group_end(lines, head) if head.is_group else _plain_end(lines, head)


def _plain_end(lines: list[str], head: _Head) -> int:
    size = len(head.prefix)
    i = head.number + 1
    while i < len(lines) and (lines[i][size:].startswith((" ", "\t")) or _CARETS.match(lines[i][size:])):
        i += 1
    i += 1
    while i < len(lines) and lines[i][size:].startswith((" ", "\t")):
        i += 1
    return min(i, len(lines))


def _group_end(lines: list[str], head: _Head) -> int:
    """A group is drawn as a tree; only messages of several lines begin at the left."""
    size, last = len(head.prefix), head.number
    for i in range(head.number + 1, len(lines)):
        line = lines[i][size:]
        if line.rstrip() == _GROUP_END:
            return i + 1
        if line.endswith(_GROUP_HEAD):
            break
        last = i if _TREE.match(line) else last
    return last + 1


def meaning(exit_code: int) -> str:
    """The meaning of an exit code, in a few words."""
    if exit_code in _MEANINGS:
        return _MEANINGS[exit_code]
    if 128 < exit_code < 128 + signal.NSIG:
        try:
            return f"ended by {signal.Signals(exit_code - 128).name}"
        except ValueError:
            return f"ended by signal {exit_code - 128}"
    return "an error that the trainer itself chose to end with"


def hint(text: str, exit_code: int | None, named_by: NamedBy = NamedBy.OTHER) -> str:
    """Advice for a well-known cause, or an empty text. `text` is an exception, or more of the log.

    `named_by` is where the command line named the trainer: the advice names the same flags.
    """
    if module := missing_module(text):
        return _distribution_hint(module, named_by)
    for pattern, advice in _HINTS:
        match = re.search(pattern, text)
        if match:
            return advice.format(*match.groups())
    return _EXIT_HINTS.get(exit_code or 0, "")


def _is_chained(lines: list[str], head: _Head, following: _Head) -> bool:
    """Whether a traceback is the cause of the next one, or was raised again with that one in its text."""
    end = _end(lines, head)
    between = [
        line
        for line in lines[end : following.number]
        if line.removeprefix(following.prefix).strip() or line.strip() != following.prefix.strip()
    ]
    if end == following.number and _ORIGINAL in lines[end]:
        return True
    return bool(between) and _CHAIN.search(between[-1]) is not None


def _own_frame(lines: list[str], first_lines: list[str]) -> tuple[str, int]:
    """The last frame of the trainer's code, which is the package of the first frame outside Python's library.

    `first_lines` is the traceback that has this first frame.
    """
    frames = _frames(lines)
    foreign = [frame for frame in frames if not _LIBRARY.search(frame[0])]
    first = next((frame for frame in _frames(first_lines) if not _LIBRARY.search(frame[0])), None)
    if first is None or not foreign:
        return frames[-1] if frames and not frames[-1][0].startswith("<") else ("", 0)
    root = _package_root(first[0])
    own = [frame for frame in foreign if _package_root(frame[0]) == root]
    return (own or foreign)[-1]


def folded(lines: Sequence[str], own_file: str) -> list[str]:
    """A traceback in which runs of frames outside the trainer's code are one line each.

    `own_file` is a file of the trainer's code; without it none is folded. The frames of `python -m`, which
    are in every traceback, are left out.
    """
    shown: list[str] = []
    hidden: list[str] = []
    is_foreign = False
    for line in lines:
        match = _FRAME.match(line)
        if match:
            is_launcher = _RUNPY.search(match["file"]) is not None
            is_foreign = is_launcher or (bool(own_file) and _is_foreign(match["file"], own_file))
            if is_foreign and not is_launcher:
                owner = _OWNER.search(match["file"])  # the package that the file is in
                hidden.append(owner[1] if owner else match["file"])
        elif not line.startswith("   "):
            is_foreign = False
        if not is_foreign:
            shown += [*_fold(hidden), line]
            hidden = []
    return [*shown, *_fold(hidden)]


def _is_foreign(file: str, own_file: str) -> bool:
    return _LIBRARY.search(file) is not None or _package_root(file) not in ("", _package_root(own_file))


def _fold(owners: list[str]) -> list[str]:
    """`  … 3 frames in json, numpy`; no line without frames."""
    if not owners:
        return []
    count = f"{len(owners)} frames" if len(owners) > 1 else "1 frame"
    return [f"  … {count} in {', '.join(dict.fromkeys(owners))}"]


def _frames(lines: list[str]) -> list[tuple[str, int]]:
    return [(match["file"], int(match["line"][:9])) for line in lines if (match := _FRAME.match(line))]


def _package_root(file: str) -> str:
    """The installed package that a file belongs to; empty for a file that is not installed."""
    match = _SITE.match(file)
    return match[0] if match else ""


def missing_module(exception: str) -> str:
    """The dotted name of the module that an import did not find; empty for any other exception."""
    match = _NO_MODULE.search(exception)
    return match["module"] if match else ""


def _distribution_hint(module: str, named_by: NamedBy) -> str:
    known, top = known_distribution(module), module.partition(".")[0]
    name = known or "NAME"  # on an index a module's name may be a stranger's
    if named_by is NamedBy.ENVIRONMENT:
        what = known or f"the package that brings `{top}`"
        return (
            f"Install {what} in the Python that the trainer ran in, or give --requirements={name} with all "
            "else that it imports: then vtrain makes an environment of these alone."
        )
    added = {
        NamedBy.FLAGS: f"to requirements.txt in the trainer's folder, or give --requirements={name}",
        NamedBy.POOL: f"to requirements.txt in its folder, or requirements={name} to --worker-pool-spec",
        NamedBy.OTHER: "to what the trainer's package requires, or to its image",
    }[named_by]
    if known:
        return f"Add {known} {added}."
    return (
        f"Add the package that brings `{top}` {added}. If `{top}` is a module of the trainer, import it from "
        "its package."
    )


_NO_MODULE = re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '(?P<module>[^']{1,300})'")
_OUT_OF_MEMORY = (
    "Use smaller batches, load less at once, or allow more memory (--memory, or a larger machine type)."
)
_HINTS = (
    (
        r"^bdb\.BdbQuit|^EOFError: EOF when reading a line",
        "Run it with `vtrain run … --interactive` in a terminal, so that the trainer can read what you type.",
    ),
    (
        r"FileNotFoundError.{0,300}'gs://([^']*)'",
        "open() knows no gs:// addresses: use /gcs/{0}, as on Vertex AI, or a Cloud Storage client. "
        "--aip-dirs=local gives AIP_MODEL_DIR as a path here.",
    ),
    (
        r"ValueError: URI (?:scheme must be gs|pattern must be gs://)",
        "AIP_MODEL_DIR is a path here, and begins with gs:// on Vertex AI. --aip-dirs=gs gives it so, with "
        "Cloud Storage served by this machine.",
    ),
    (
        r"Error executing an HTTP request",
        "TensorFlow's own gs:// client speaks to the real Cloud Storage, and knows no other. "
        "--aip-dirs=local gives AIP_MODEL_DIR as a path here.",
    ),
    (
        r"FileNotFoundError.{0,300}'(/gcs/[^']*)'",
        "{0} is in Cloud Storage, which here only containers have mounted (--backend=docker): "
        "/gcs/NAME is the folder NAME of vtrain's buckets.",
    ),
    (
        r"FileNotFoundError.{0,300}'[^']*/(?:site|dist)-packages/([^']*)'",
        "{0} is not installed. If it is a file of the trainer, its build leaves it out: add it to "
        "package-data or to MANIFEST.in.",
    ),
    (
        r"FileNotFoundError: \[Errno 2\][^']{0,300}'([^/'][^']*)'",
        "{0} is looked for in the working directory, where Vertex AI has no files of a package in a bucket. "
        "Check that it is packaged, and open it beside the module: Path(__file__).parent.",
    ),
    (r"CUDA out of memory|OutOfMemoryError.{0,300}CUDA", "The GPU's memory is full: use smaller batches."),
    (
        r"no CUDA-capable device|NVIDIA driver|not compiled with CUDA|CUDA_ERROR_NO_DEVICE|No CUDA GPUs",
        "No usable GPU was found: fall back to the CPU where torch.cuda.is_available() is false.",
    ),
    (r"MemoryError|Cannot allocate memory", _OUT_OF_MEMORY),
    (
        r"Address already in use",
        "Take the port from CLUSTER_SPEC or MASTER_PORT, which are free; a fixed one may be taken.",
    ),
    (
        r"(?:^|\n)[Uu]sage: |error: (?:unrecognized|the following) arguments|error: argument ",
        "The trainer refused its arguments. They are what follows `--`, or --args, or args in the file of "
        "--config.",
    ),
    (
        r"\\r'?: command not found|(?<![^\n])\S+: line \d+: [^\n]*(?:syntax error|\r(?=[^\n]))",
        "The shell cannot read the script. Where that has Windows line ends, `sed -i 's/\\r$//' FILE` "
        "removes them.",
    ),
    (
        r"DefaultCredentialsError",
        "A trainer on this machine has no credentials unless --credentials=adc or =FILE gives it some; "
        "`gcloud auth application-default login` makes yours. --aip-dirs=gs serves buckets without any.",
    ),
    (
        r"(?:PermissionError: \[Errno 13\]|OSError: \[Errno 30\])[^']{0,300}'([^/'][^']*)'",
        "The image's user may not write {0} into the working directory: write below AIP_MODEL_DIR, "
        "or let the image make its WORKDIR writable.",
    ),
    (
        r"PermissionError: \[Errno 13\][^']{0,300}'([^']+)'",
        "The trainer has no permission for {0}; what it writes belongs below AIP_MODEL_DIR.",
    ),
    (
        r"[Rr]ead-only file system",
        "It is mounted read-only: write below AIP_MODEL_DIR, which --base-output-dir sets, "
        "or mount it without `readonly`.",
    ),
    (
        r"No space left on device",
        "The disk is full: free some space; old jobs go with `vtrain custom-jobs delete`.",
    ),
)
_EXIT_HINTS = {
    126: "Check that the file is executable and has a valid first line.",
    127: "Check the name of the program and the PATH.",
    134: "Add --env=PYTHONFAULTHANDLER=1 to see the Python line where it aborted.",
    137: "Something killed it (SIGKILL): a user, a program, or the kernel for lack of memory (see dmesg).",
    139: "Add --env=PYTHONFAULTHANDLER=1 to see the Python line where it crashed.",
}
