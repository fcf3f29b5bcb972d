"""Shell completion: installed by `--install-completion`, and asked by the shell at each TAB.

The shell gives the words as `COMP_WORDS`, one per line, and the place of the last as `COMP_CWORD`. The answer
begins with a line `files` or `words`: whether the shell completes the name of a file itself. Then each line
is a word, and behind a tab its text. Of `--flag=VALUE` the answer is the value alone.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

from vtrain.errors import UsageError
from vtrain.flags.completion import FILES
from vtrain.output.writing import print_text

VARIABLE = "_VTRAIN_COMPLETE"
SCRIPTS = {
    "bash": r"""
_vtrain_completion() {
    local IFS=$'\n' line kind=""
    COMPREPLY=()
    while read -r line; do
        if [[ -z $kind ]]; then kind=$line; else COMPREPLY+=("${line%%$'\t'*}"); fi
    done < <(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD COMP_TYPE=$COMP_TYPE \
        COMP_LINE="$COMP_LINE" _VTRAIN_COMPLETE=bash "$1" 2>/dev/null)
    if [[ $kind == words ]]; then
        compopt +o default 2>/dev/null
        compopt -o nosort 2>/dev/null # bash 4.4 and later: jobs stay newest first
    fi
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=/] ]]; then
        compopt -o nospace 2>/dev/null
    fi
    return 0
}
complete -o default -F _vtrain_completion vtrain
""",
    "zsh": r"""
#compdef vtrain
compdef _vtrain vtrain

_vtrain() {
    local line value text
    local -a answer spaced unspaced
    answer=("${(@f)$(env COMP_WORDS="${(pj:\n:)${(@Q)words[1,CURRENT]}}" COMP_CWORD=$((CURRENT - 1)) \
        _VTRAIN_COMPLETE=zsh ${~words[1]} 2>/dev/null)}")
    compset -P 1 '--*='
    if [[ $answer[1] == files ]]; then
        _files
        return
    fi
    for line in "${(@)answer[2,-1]}"; do
        value=${line%%$'\t'*}
        text=${line#*$'\t'}
        line=${${value//\\/\\\\}//:/\\:}
        [[ $text == $value ]] || line+=":$text"
        if [[ $value == *[=/] ]]; then unspaced+=("$line"); else spaced+=("$line"); fi
    done
    _describe -V vtrain spaced -- unspaced -S ''
}

# The file is the body of the function at its first call, and defines it for all others.
if [[ $funcstack[1] == _vtrain ]]; then
    _vtrain "$@"
fi
""",
    "fish": r"""
function __vtrain_completion
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l flag (string match -r -- '^--[^=]*=' $current)
    set -l program $words[1]
    command -q $program; or set program vtrain
    set -l answer (env COMP_WORDS=(string join \n -- $words "$current" | string collect -N) \
        COMP_CWORD=(count $words) _VTRAIN_COMPLETE=fish $program 2>/dev/null)
    if test "$answer[1]" = files
        set answer x (__fish_complete_path (string replace -- "$flag" "" "$current"))
    end
    for line in $answer[2..]
        echo -- "$flag$line"
    end
end

complete --command vtrain --no-files --arguments "(__vtrain_completion)"
""",
}


def answer(root: Any, invocation: Any) -> None:
    """Print what the shell that asks through `VARIABLE` may offer."""
    words, cut = os.environ.get("COMP_WORDS", "").split("\n"), 0
    number = os.environ.get("COMP_CWORD", "")
    words = words[: int(number if re.fullmatch("[0-9]{1,9}", number) else 0) + 1]
    if os.environ[VARIABLE] == "bash":
        words, cut = _joined(words, os.environ.get("COMP_LINE", ""))
    *args, incomplete = words[1:] or [""]
    offers = [(FILES, "")] if "--" in args else _offers(root, invocation, args, incomplete)
    if any(value.endswith(FILES) for value, _ in offers):
        print_text("files")
        return
    if os.environ[VARIABLE] == "bash":
        offers = _described(offers)
    lines = (f"{value[cut:]}\t{text}" if text else value[cut:] for value, text in offers)
    print_text("\n".join(["words", *lines]))


def set_up(words: Sequence[str]) -> str:
    """Install or show the completion script, as the word of the command line says; returns what to print.

    Raises UsageError where the shell is unknown and cannot be found out.
    """
    word = next(word for word in words if word.partition("=")[0].endswith("-completion"))
    flag, _, shell = word.partition("=")
    shell = shell or _current_shell()
    if shell not in SCRIPTS:
        raise UsageError(f"{flag}: the shell is not known.", hint=f"Name it: {flag}={'|'.join(SCRIPTS)}")
    script = SCRIPTS[shell].lstrip()
    if flag == "--show-completion":
        return script.rstrip()
    install = _private("_completion_shared").install  # it knows the start-up files of each shell
    _, path = install(prog_name="vtrain", complete_var=VARIABLE, shell=shell)
    path.write_text(script)
    return f"Completion for {shell} is installed in {path}. Open a new shell to use it."


def _offers(root: Any, invocation: Any, args: list[str], incomplete: str) -> list[tuple[str, str]]:
    """Words that may stand for the last one, each with its text."""
    completer = _private("_completion_classes").BashComplete
    invocation.job_names = partial(import_module, "vtrain.commands.offered_names")
    asked = completer(root, {"obj": invocation}, "vtrain", VARIABLE)
    items = asked.get_completions(args, incomplete)
    return [(str(item.value), " ".join((item.help or "").split())) for item in items]


def completion_item(value: str, text: str) -> Any:
    """A word that a shell offers, with its text."""
    return _private("_click.shell_completion").CompletionItem(value, help=text)


def _private(module: str) -> Any:
    """A private module of Typer: none is asked for elsewhere, and pyproject.toml bounds Typer's version."""
    return import_module(f"typer.{module}")


def _described(offers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The offers for bash, which shows no texts: ids of jobs are listed with theirs.

    bash inserts only what all the words have in common. A menu inserts them one by one: it gets no texts.
    """
    is_menu = os.environ.get("COMP_TYPE") == str(ord("%"))
    if is_menu or len(offers) < 2 or not all(value.isdecimal() and text for value, text in offers):
        return offers
    return [(f"{value}  ({text})", "") for value, text in offers]


def _current_shell() -> str:
    import shellingham

    try:
        return str(shellingham.detect_shell()[0])
    except shellingham.ShellDetectionFailure:
        return ""


def _joined(words: Sequence[str], line: str) -> tuple[list[str], int]:
    """The words without quotes, and put together where bash split them: at `=`, `:` and `@`.

    Also how much of the last value bash keeps, so that an answer has to come without it: what stands before
    the last part, and that itself where it is `=` or `:`.
    """
    joined: list[str] = []
    kept = end = 0
    for word in words:
        start = line.find(word, end)
        continues = bool(joined and word) and start == end
        at = len(word) if word in ("=", ":") else -1 if joined and joined[-1].endswith("@") else 0
        kept = len(joined[-1]) + at if continues else 0
        joined = [*joined[:-1], joined[-1] + word] if continues else [*joined, word]
        end = start + len(word)
    option, equals, _ = joined[-1].partition("=") if joined else ("", "", "")
    before = len(option) + len(equals) if equals and option.startswith("--") else 0
    return [_unquoted(word) for word in joined], max(kept - before, 0)


def _unquoted(word: str) -> str:
    try:
        return "".join(shlex.split(word))
    except ValueError:  # a quote that is still open
        return word.lstrip("'\"")
