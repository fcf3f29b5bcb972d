"""Shell completion: installed by `--install-completion`, and asked by the shell at each TAB.

Typer writes the scripts and walks the commands. bash splits words at `=`, so that `--region=us` reaches us
as three words; they are put together again, and answers cut to what bash replaces.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any

from vtrain.errors import UsageError

VARIABLE = "_VTRAIN_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


def answer(root: Any, invocation: Any) -> None:
    """Print what the shell that asks through `VARIABLE` may offer."""
    typer_completion = import_module("typer.completion")
    typer_completion.completion_init()
    instruction = os.environ[VARIABLE]
    cut = _join_words() if instruction == "complete_bash" else 0
    output = io.StringIO()
    with redirect_stdout(output):
        typer_completion.shell_complete(root, {"obj": invocation}, "vtrain", VARIABLE, instruction)
    lines = output.getvalue().splitlines()
    print("\n".join(line[cut:] for line in lines))


def set_up(words: Sequence[str]) -> str:
    """Install or show the completion script, as the word of the command line says; returns what to print.

    Raises UsageError where the shell is unknown and cannot be found out.
    """
    word = next(word for word in words if word.partition("=")[0].endswith("-completion"))
    flag, _, shell = word.partition("=")
    shell = shell or _current_shell()
    if shell not in SHELLS:
        raise UsageError(f"{flag}: the shell is not known.", hint=f"Name it: {flag}={'|'.join(SHELLS)}")
    scripts = import_module("typer._completion_shared")
    names = {"prog_name": "vtrain", "complete_var": VARIABLE, "shell": shell}
    if flag == "--show-completion":
        return str(scripts.get_completion_script(**names))
    _, path = scripts.install(**names)
    return f"Completion for {shell} is installed in {path}. Open a new shell to use it."


def _current_shell() -> str:
    import shellingham

    try:
        return str(shellingham.detect_shell()[0])
    except shellingham.ShellDetectionFailure:
        return ""


def _join_words() -> int:
    """Put words together that bash split at `=`, in the environment; how much of the last one bash keeps."""
    words, number = os.environ.get("COMP_WORDS", "").split("\n"), int(os.environ.get("COMP_CWORD", "0"))
    joined: list[str] = []
    kept = 0
    for word in words[: number + 1]:
        continues = bool(joined) and joined[-1].startswith("--") and (word == "=" or joined[-1].endswith("="))
        kept = len(joined[-1]) if continues else 0
        joined = [*joined[:-1], joined[-1] + word] if continues else [*joined, word]
    if words[number : number + 1] == ["="]:
        kept += 1
    os.environ["COMP_WORDS"] = "\n".join(joined)
    os.environ["COMP_CWORD"] = str(len(joined) - 1)
    option, equals, _ = joined[-1].partition("=") if joined else ("", "", "")
    return max(kept - len(option) - len(equals), 0) if equals else 0
