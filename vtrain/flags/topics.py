"""The pages of the documentation, which the package brings along, and the one that belongs to a command."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "pages"
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)

_OF_COMMANDS = {
    "run": "how-to/package-a-trainer",
    "submit": "how-to/run-on-vertex",
    "tune": "how-to/tune",
    "compare": "how-to/tune",
    "ps": "how-to/tune",
    "logs": "how-to/troubleshooting",
    "show": "how-to/troubleshooting",
    "wait": "reference/commands",
    "stop": "reference/commands",
    "rerun": "how-to/troubleshooting",
    "rm": "how-to/look-after-vtrain",
    "gc": "how-to/look-after-vtrain",
    "trials": "how-to/tune",
    "best": "how-to/tune",
    "report": "how-to/tune",
    "exec": "how-to/troubleshooting",
    "shell": "how-to/troubleshooting",
    "debug": "how-to/troubleshooting",
    "cp": "how-to/models",
    "predict": "how-to/models",
    "top": "how-to/machines",
    "dashboard": "how-to/look-at-jobs-in-a-browser",
    "tensorboard": "how-to/look-at-jobs-in-a-browser",
    "doctor": "how-to/troubleshooting",
    "init": "how-to/describe-a-job",
    "schema": "how-to/describe-a-job",
    "custom-jobs create": "how-to/run-on-vertex",
    "custom-jobs local-run": "how-to/run-in-docker",
    "custom-jobs environment": "how-to/package-a-trainer",
    "custom-jobs": "how-to/move-from-gcloud",
    "hp-tuning-jobs": "how-to/tune",
    "training-pipelines": "how-to/models",
    "persistent-resources": "how-to/machines",
    "models": "how-to/models",
    "ai-platform": "how-to/move-from-gcloud",
    "package image": "how-to/run-in-docker",
    "package": "how-to/package-a-trainer",
    "emulator storage": "how-to/data-and-buckets",
    "emulator exec": "how-to/run-your-sdk-program",
    "emulator": "how-to/use-the-emulator",
}
"""Pages by commands; one of a group without an entry of its own has that of the group."""


def topic_of(path: str) -> str:
    """The page to read about a command, `vtrain models list`; of any other command the first steps."""
    words = path.split()[1:]
    names = (" ".join(words[:count]) for count in range(len(words), 0, -1))
    return next((_OF_COMMANDS[name] for name in names if name in _OF_COMMANDS), "tutorial/first-job")


def topics() -> list[str]:
    """The names of all pages, such as `how-to/tune`."""
    return sorted(page.relative_to(FOLDER).with_suffix("").as_posix() for page in FOLDER.glob("*/*.md"))


def page_of(topic: str) -> str | None:
    """The text of a page, by its name with or without its folder; None where there is none."""
    found = [name for name in topics() if topic in (name, name.partition("/")[2])]
    return (FOLDER / f"{found[0]}.md").read_text(encoding="utf-8") if found else None


def pages_about(word: str) -> dict[str, str]:
    """The titles of the pages that have a word, by their names; an `s` at its end does not matter.

    The one page that has it in its name or title is the only one. Else those with a heading that has it come
    first, and then those that have it most often.
    """
    whole = re.compile(rf"(?<![a-z0-9]){re.escape(word.lower().removesuffix('s'))}s?(?![a-z0-9])")
    titles, titled, ranks = {}, [], {}
    for name in topics():
        text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
        headings = re.findall(r"^#+ (.*)", _CODE.sub("", text), re.MULTILINE)
        titles[name] = headings[0]
        if whole.search(f"{name} {headings[0]}".lower()):
            titled.append(name)
        if count := len(whole.findall(f"{name}\n{text}".lower())):
            ranks[name] = (whole.search("\n".join(headings).lower()) is None, -count, name)
    found = titled if len(titled) == 1 else sorted(ranks, key=ranks.__getitem__)
    return {name: titles[name] for name in found}
