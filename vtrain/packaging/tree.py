"""The files of a trainer's folder: those that belong, how they are now, and those with a fault."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from vtrain.digests import file_digest
from vtrain.errors import PackagingError
from vtrain.packaging.credential_files import credentials_kind
from vtrain.packaging.direct import Member
from vtrain.packaging.ignore_files import Belonging, IgnoreRules, RuleSet
from vtrain.packaging.source import printable
from vtrain.sizes import size_in_words
from vtrain.text_files import encoding_of

SIZE_WARNING = 50 * 1000 * 1000
"""Bytes of a package from which on a warning names its largest files."""
_SHELL_SUFFIXES = (".sh", ".bash")
_MOST_BYTES = 64 * 1024
"""How much of a script is read."""


def belonging_files(
    folder: Path,
    *,
    extra_dirs: tuple[str, ...] = (),
    excluded: tuple[Path, ...] = (),
    rules: IgnoreRules | None = None,
) -> Belonging:
    """Walk `folder` and select the files of the package.

    `extra_dirs` (relative to the folder) belong whatever the ignore file says; the built-in excludes
    hold there too. `excluded` are folders of vtrain itself that may lie inside. `rules` are those of the
    folder's ignore file, unless others are given.
    """
    walk = _TreeWalk(folder, rules or IgnoreRules(folder, excluded=excluded), extra_dirs)
    try:
        walk.visit("", walk.rules.rule_sets)
        for extra in extra_dirs:
            walk.visit(extra, None)
    except RecursionError:  # in a program that uses vtrain as a library
        raise PackagingError(f"The folders in {folder} are nested too deeply.") from None
    files = tuple(sorted(set(walk.files)))
    return Belonging(
        files=files,
        left_out=tuple(sorted(set(walk.left_out).difference(files))),
        ignore_file=walk.rules.file,
        warnings=tuple(dict.fromkeys(walk.warnings)),
        credentials=tuple(dict.fromkeys(walk.credentials)),
    )


# What Python makes of bytes in a name that are not UTF-8.
_NOT_UTF8 = re.compile("[\ud800-\udfff]")


class _TreeWalk:
    def __init__(self, folder: Path, rules: IgnoreRules, extra_dirs: tuple[str, ...]) -> None:
        self.folder = folder
        self.top = os.path.realpath(folder)
        self.rules = rules
        self.files: list[str] = []
        self.left_out: list[str] = []
        self.warnings: list[str] = []
        self.followed: list[str] = []
        self.credentials: list[str] = []
        self.extra_dirs = extra_dirs
        self.outputs: list[os.stat_result] = []
        for descriptor in (1, 2):
            with suppress(OSError):  # a closed one
                self.outputs.append(os.fstat(descriptor))
        tops = (self.top, *(os.path.realpath(folder / extra) for extra in extra_dirs))
        self.roots = tuple(f"{top}/" for top in tops)

    def visit(self, path: str, rule_sets: tuple[RuleSet, ...] | None) -> None:
        """Walk one folder. Without rule sets (an extra dir) only the built-in excludes hold."""
        try:
            if rule_sets is not None:
                rule_sets = self.rules.with_nested(path, rule_sets)
            with os.scandir(self.folder / path) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            raise PackagingError(
                f"Cannot read the folder {self.folder / path}: {error.strerror}.",
                hint=f"Make it readable, or exclude it: write {path}/ into .vtrainignore." if path else "",
            ) from None
        for entry in entries:
            self._visit_entry(entry, f"{path}/{entry.name}" if path else entry.name, rule_sets)

    def _visit_entry(self, entry: os.DirEntry[str], path: str, rule_sets: tuple[RuleSet, ...] | None) -> None:
        if _NOT_UTF8.search(entry.name):  # wheels name their files in UTF-8
            self._leave_out(path, "its name is not UTF-8")
            return
        try:
            is_folder = entry.is_dir()
        except OSError:
            is_folder = False
        if is_folder:
            self._visit_folder(entry, path, rule_sets)
        elif self.rules.excludes(path, entry.name, False) or _ignored(path, False, rule_sets):
            self.left_out.append(path)
        else:
            self._take_file(entry, path)

    def _visit_folder(
        self, entry: os.DirEntry[str], path: str, rule_sets: tuple[RuleSet, ...] | None
    ) -> None:
        if path in self.extra_dirs:  # it is visited by itself
            return
        if self.rules.excludes(path, entry.name, True):
            self.left_out.append(f"{path}/")
            return
        ignored = _ignored(path, True, rule_sets)
        if ignored and not any(rules.can_keep_below() for rules in rule_sets or ()):
            self.left_out.append(f"{path}/")
            return
        if entry.is_symlink() and (reason := self._broken_link(path)):
            self._leave_out(path, reason)
            return
        taken, listed = len(self.files), len(self.left_out)
        if entry.is_symlink():
            self.followed.append(os.path.realpath(self.folder / path))
        self.visit(path, rule_sets)
        if entry.is_symlink():
            self.followed.pop()
        if ignored and len(self.files) == taken:
            self.left_out[listed:] = [f"{path}/"]

    def _take_file(self, entry: os.DirEntry[str], path: str) -> None:
        try:
            status = entry.stat()
        except OSError:
            self._leave_out(path, "it is a link that leads nowhere")
            return
        if not stat.S_ISREG(status.st_mode):
            self._leave_out(path, "it is neither a file nor a folder")
        elif any(os.path.samestat(status, output) for output in self.outputs):
            self.left_out.append(path)  # it changes while it is packed: `vtrain run train.py > log.txt 2>&1`
        elif entry.is_symlink() and not os.path.realpath(self.folder / path).startswith(self.roots):
            self._leave_out(path, "it is a link to a file outside; put a copy in its place to pack it")
        elif kind := credentials_kind(self.folder / path, status.st_size):
            self._leave_out(path, f"it is {kind}, and those are never packed")
            self.credentials.append(printable(path))
        else:
            self.files.append(path)

    def _broken_link(self, path: str) -> str:
        """Why a link to a folder is not followed; "" when it is."""
        target = os.path.realpath(self.folder / path)
        parent = os.path.realpath((self.folder / path).parent)
        if target == self.top or f"{parent}/".startswith(f"{target}/"):
            return "it is a link to a folder above it"
        if not target.startswith(f"{self.top}/"):
            return "it is a link to a folder outside; name it in extra-dirs to pack it"
        if target in self.followed:
            return "links lead in a circle here"
        return ""

    def _leave_out(self, path: str, reason: str) -> None:
        shown = printable(path)
        self.left_out.append(shown)
        self.warnings.append(f"{shown} is left out: {reason}")


def _ignored(path: str, is_folder: bool, rule_sets: tuple[RuleSet, ...] | None) -> bool:
    for rules in rule_sets or ():
        verdict = rules.verdict(path, is_folder)
        if verdict is not None:
            return verdict
    return False


class PackedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the package: its path relative to the folder, size in bytes, and sha256."""

    path: str
    size: int
    executable: bool
    digest: str

    def member(self, folder: Path, name: str = "") -> Member:
        """The file, which lies in `folder`, as a member of an archive; by its own path, or another name."""
        return Member(
            name=name or self.path,
            content=folder / self.path,
            executable=self.executable,
            size=self.size,
            digest=self.digest,
        )


def pack_file(folder: Path, path: str) -> PackedFile:
    """The present state of a file; what is appended later does not belong to it.

    Raises PackagingError if it cannot be read.
    """
    try:
        status = (folder / path).stat()
        content = file_digest(folder / path, status.st_size)
    except OSError as error:
        shown = printable(path)
        raise PackagingError(
            f"Cannot read {shown}: {error.strerror}.",
            hint=f"Make it readable, or exclude it: write {shown} into .vtrainignore.",
        ) from None
    return PackedFile(path=path, size=status.st_size, executable=bool(status.st_mode & 0o100), digest=content)


def file_warnings(folder: Path, files: Sequence[PackedFile], entry: str = "") -> Iterator[str]:
    """A sentence for each script that no shell can read, and for a package that is very large.

    A shell takes the line ends of Windows, and a byte-order mark, for parts of commands. It runs the `entry`
    whatever its name, unless it is Python's.
    """
    for file in files:
        is_shells = file.path.endswith(_SHELL_SUFFIXES) or (
            file.path == entry and not file.path.endswith((".py", ".ipynb"))
        )
        if not (is_shells or file.executable):
            continue
        with (folder / file.path).open("rb") as script:
            text = script.read(_MOST_BYTES)
        name = printable(file.path)
        if is_shells and encoding_of(text):
            yield f"{name} begins with a byte-order mark, which no shell reads; save it as UTF-8 without one"
            continue
        who, what = ("shell", "each line") if is_shells else ("system", "its first line")
        wrong = text if is_shells else text.partition(b"\n")[0] + b"\n" if text.startswith(b"#!") else b""
        if b"\r\n" in wrong:
            yield (
                f"{name} has Windows line ends, which the {who} reads as a part of {what}; "
                f"`sed -i 's/\\r$//' {shlex.quote(name)}` removes them"
            )
    total = sum(file.size for file in files)
    if total > SIZE_WARNING:
        largest = sorted(files, key=lambda file: (-file.size, file.path))[:5]
        shown = ", ".join(f"{printable(file.path)} ({size_in_words(file.size)})" for file in largest)
        yield (
            f"the package holds {size_in_words(total)}; the largest files are {shown}. "
            "List what it does not need in .vtrainignore, and keep data in a bucket"
        )
