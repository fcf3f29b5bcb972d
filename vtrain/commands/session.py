"""The start of each command: its console, the backend that its line means, and questions at a terminal."""

from __future__ import annotations

import select
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import vtrain.core.target as core_target
from vtrain.backends import ServiceAccess
from vtrain.core.references import command_about, names_trial, shown_name
from vtrain.core.target import Reporter, Wish, choose_target
from vtrain.errors import ConfigError, NotFoundError, UnavailableError, UsageError
from vtrain.flags.grammar import join_lists
from vtrain.flags.options import CommonFlags, PlaceFlags
from vtrain.messages.codec import to_document
from vtrain.messages.names import CUSTOM_JOB, DEFAULT_REGION, TUNING_JOB, ResourceKind
from vtrain.messages.secrets import is_made_here, masked_document
from vtrain.messages.structs import Resource
from vtrain.output.colours import dim
from vtrain.output.console import VERBOSITIES, Console
from vtrain.output.layout import in_columns
from vtrain.output.terminal import on_one_line
from vtrain.properties import property_flag, property_value, use_configuration
from vtrain.settings import TRAINING_REGIONS, Choice

if TYPE_CHECKING:
    from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob, Trial


class CommandConsole(Console, Reporter):
    """The console of a command, which also shows its target, and asks for a region at a terminal."""

    _told = ""

    @property
    def can_ask(self) -> bool:
        """Whether somebody at a terminal is there to answer, and has not said that nothing is to be asked."""
        is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
        return is_terminal and not self.quiet and not property_flag("core", "disable_prompts")

    def chose(self, choice: Choice) -> None:
        """Say which backend a command uses, and why, before anything else; once for several jobs."""
        if choice.value == self._told:
            return
        self._told = choice.value
        self.progress(dim(f"Backend: {choice.value} ({choice.origin})"))

    def ask_region(self) -> str:
        """The region that the user chooses; empty where one is set already, or nobody can be asked.

        Raises ConfigError when the choice is cancelled.
        """
        if property_value("ai", "region") or not self.can_ask:
            return ""
        self.status(f"In which region? Enter takes {DEFAULT_REGION}, ? lists all.")
        region = _choose(self)
        self.status(f"To make it the default: gcloud config set ai/region {region}")
        return region

    def columns(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Rows of names as lines."""
        return in_columns([[on_one_line(cell) for cell in row] for row in rows])


Target = core_target.Target[CommandConsole]
Session = core_target.Session[CommandConsole]


def open_console(common: CommonFlags) -> CommandConsole:
    """The console of a command, which begins here: with gcloud's configuration that it names.

    Raises ConfigError where there is none of that name, UsageError for a level that does not exist.
    """
    use_configuration(common.configuration)
    if common.verbosity not in VERBOSITIES:
        raise UsageError(
            f"--verbosity: there is no level {common.verbosity!r}.", hint=f"Take {', '.join(VERBOSITIES)}."
        )
    user_output = common.user_output
    if user_output is None:
        name = ("core", "user_output_enabled")
        user_output = property_value(*name) is None or property_flag(*name)
    default = property_value("core", "default_format")
    return CommandConsole(
        format_text=common.format,
        flatten=join_lists(common.flatten, "--flatten"),
        default_format=default.value if default else "",
        verbosity=common.verbosity,
        quiet=common.quiet,
        user_output=user_output,
    )


def find_target(
    common: CommonFlags, place: PlaceFlags, *, console: CommandConsole | None = None, **about: Any
) -> Target:
    """The target of a command line; `about` are the arguments of `choose_target`."""
    return choose_target(console or open_console(common), wish_of(common, place), **about)


def wish_of(common: CommonFlags, place: PlaceFlags) -> Wish:
    """The place of jobs as the flags give it."""
    access = service_access(common)
    return Wish(project=common.project, backend=place.backend, region=place.region, access=access)


def open_session(common: CommonFlags, place: PlaceFlags, *, kind: ResourceKind = CUSTOM_JOB) -> Session:
    """The session of a command about resources that are there."""
    return find_target(common, place, kind=kind).open()


def open_named(
    common: CommonFlags,
    place: PlaceFlags,
    text: str,
    kind: ResourceKind = CUSTOM_JOB,
    *,
    about_running: bool = False,
    only_one: bool = False,
    console: CommandConsole | None = None,
) -> tuple[Session, str]:
    """The session of a command about one resource, and the full name of that resource.

    A job of this machine is also named by the first digits of its id, its display name or `@last`, and a
    trial as `JOB@3` or `JOB@best`. Of several jobs the newest is meant, or with `only_one` none. Raises
    ConfigError for a text that is no name or means several jobs, NotFoundError for a name that no job has.
    """
    if CUSTOM_JOB.collection in kind.collections and names_trial(text):
        session, name, output = open_trial(
            common, place, text, about_running=about_running, only_one=only_one, console=console
        )
        if not name:
            raise UnavailableError("The service names no job of this trial.", hint=f"Its folder: {output}")
        return session, name
    target = find_target(
        common,
        place,
        console=console,
        name=text,
        kind=kind,
        about_running=about_running,
        newest=not only_one,
    )
    session = target.open()
    return session, session.full_name(target.name, kind)


def open_trial(common: CommonFlags, place: PlaceFlags, text: str, **about: Any) -> tuple[Session, str, str]:
    """The session of `JOB@best` or `JOB@3`, and the trial's job and output folder, if they are known.

    `about` are arguments of `open_named`. Raises NotFoundError where there is no such trial.
    """
    from vtrain.staging import join_uri

    word, _, number = text.rpartition("@")
    session, name = open_named(common, place, word, TUNING_JOB, **about)
    job = tuning_job(session, name)
    found = best_of(job) if number == "best" else [trial for trial in job.trials if trial.id == number]
    if not found:
        hint = f"$ {command_about(name, 'trials')}"
        raise NotFoundError(f"{word} has no trial {number}.", hint=hint)
    base = job.trial_job_spec.output_uri if job.trial_job_spec is not None else ""
    return session, found[0].custom_job, join_uri(base, found[0].id) if base else ""


def tuning_job(session: Session, name: str) -> HyperparameterTuningJob:
    """The tuning job of a name."""
    from vtrain.messages.hyperparameter_tuning_job import HyperparameterTuningJob

    job = session.jobs.get(name)
    assert isinstance(job, HyperparameterTuningJob)  # as the collection in the name says
    return job


def best_of(job: HyperparameterTuningJob) -> list[Trial]:
    """The best trials of a tuning job. Raises NotFoundError where none has a result."""
    from vtrain.output.trials import best_trials

    if chosen := best_trials(job):
        return chosen
    hint = f"$ {command_about(job.name, 'trials')}"
    raise NotFoundError(f"No trial of {shown_name(job.name)} has a result.", hint=hint)


def service_access(common: CommonFlags) -> ServiceAccess:
    """The flags about access to a service; the backend of a service checks them."""
    return ServiceAccess(
        **{field: getattr(common, field) for field in ServiceAccess.__struct_fields__}  # the same names
    )


def resource_document(resource: Resource) -> dict[str, Any]:
    """A resource as it is printed: as the service wrote it, where it comes from one.

    What was made here is printed without its secrets.
    """
    document = to_document(resource) if resource.answer is None else resource.answer
    return masked_document(document) if is_made_here(resource) else document


def sent_document(resource: Resource, unknown_fields: dict[str, Any]) -> dict[str, Any]:
    """A resource as it would be sent, with the fields that vtrain does not know, and without its secrets."""
    from vtrain.messages.service_documents import laid_over

    return masked_document(laid_over(to_document(resource), unknown_fields))


def vtrain_argv(words: Sequence[str], *, is_repeated: bool = False) -> list[str]:
    """The words of another vtrain: `python -m vtrain`, without the current folder on its path.

    A module of a trainer, or somebody else's, would take a library's place there. `is_repeated` is for the
    line of a job that is run again.
    """
    lines = (
        "import sys",
        "if sys.path[:1] == ['']: del sys.path[0]",
        "from vtrain.__main__ import run",
        f"run(is_repeated={is_repeated})",
    )
    return [sys.executable, "-c", "\n".join(lines), *words]


# questions at a terminal


MENU = tuple(region for region in TRAINING_REGIONS if region != "asia-south2")
"""gcloud's own menu, so that a number means the same region in both."""
NO_REGION, GIVE_REGION = "No region was chosen.", "Give --region=REGION."
_SIGNAL_SECONDS = 0.2
"""The longest wait of a signal that Python has not noticed."""


def answer_to(
    console: Console, question: str, *, otherwise: str = "Nothing was written.", hint: str = ""
) -> str:
    """Ask a question and return the typed line, stripped.

    Raises ConfigError at the end of the input; its message is `otherwise`.
    """
    console.ask(question)
    # Python would not notice a signal that arrives just before it reads; a wait that ends notices it.
    while not select.select([sys.stdin], [], [], _SIGNAL_SECONDS)[0]:
        continue
    answer = sys.stdin.readline()
    if not answer:
        console.status("")  # nobody typed the end of the question's line
        raise ConfigError(otherwise, hint=hint)
    return answer.strip()


def confirm(console: Console, question: str, *, otherwise: str) -> None:
    """Go on where the user consents, at a terminal or by `--quiet`.

    Raises ConfigError where not, or where nobody can be asked; its message is `otherwise`.
    """
    if console.quiet:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError(otherwise, hint=f"{question} To say yes, add --quiet.")
    if answer_to(console, f"{question} [y/N]: ", otherwise=otherwise).lower() not in ("y", "yes"):
        raise ConfigError(otherwise)


def _choose(console: Console) -> str:
    """The region of the number, or name, that is typed; asked until it is one."""
    numbers = [str(number) for number in range(1, len(MENU) + 1)]
    while True:
        word = answer_to(console, "Number or name: ", otherwise=NO_REGION, hint=GIVE_REGION)
        if not word:
            return DEFAULT_REGION
        if word == "?":
            lines = [f" [{number}] {region}" for number, region in enumerate(MENU, start=1)]
            console.status("\n".join([*lines, f" [{len(lines) + 1}] none: cancel"]))
            continue
        if word == str(len(MENU) + 1):
            raise ConfigError(NO_REGION, hint=GIVE_REGION)
        if word in TRAINING_REGIONS:
            return word
        if word in numbers:
            return MENU[numbers.index(word)]
        console.status(f"Please type a number from 1 to {len(MENU) + 1}, or a region.")
