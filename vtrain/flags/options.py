"""The options of all commands, in groups. A command names its groups, and their fields are its flags."""

from importlib import import_module
from typing import Any, ClassVar

import msgspec

from vtrain.flags.completion import (
    any_jobs,
    backends,
    commands,
    conditions,
    configurations,
    custom_jobs,
    files,
    formats,
    job_files,
    leftovers,
    one_of,
    regions,
    replicas,
    states,
    training_pipelines,
    tuning_jobs,
    verbosities,
)
from vtrain.flags.grammar import labels
from vtrain.flags.row import FlagGroup, argument, flag, groups_of, items, switch, text

TRAINER = "Trainer"
JOB = "Job"
MACHINES = "Machines (Vertex AI)"
PLACE = "Backend and region"
OUTPUT = "Output"
WAITING = "Waiting"
LOCAL = "This machine (local backends)"
CONTAINERS = "Containers (backend docker)"
GOOGLE_CLOUD = "Google Cloud"
COMMON = "Common"
HEADINGS = (TRAINER, JOB, MACHINES, PLACE, OUTPUT, WAITING, LOCAL, CONTAINERS, GOOGLE_CLOUD)
"""The headings of flags in the order of a help page; other headings follow the job's. The common flags are
on a page of their own."""
COMMAND = "COMMAND"
"""The remainder of a command that runs another program."""
REGION_HELP = "Region of Vertex AI. Local backends need none."
NAMES = "Id or full name. On this machine also the id's first digits, the display name, or @last"
"""The names that a resource may be called by."""
TRIAL_NAMES = "A trial is JOB@3 or JOB@best."
MANY_NAMES = f"{NAMES.replace('Id or full name', 'Ids or full names')}. {TRIAL_NAMES}"


class CommandHelp(msgspec.Struct, frozen=True, kw_only=True):
    """The help of one command: its name, its texts, and its flags: groups of them, or the set called `line`.

    A `line`, as `module:class`, is imported when its command is built: most commands of its table need none.
    Each of the `examples` is a sentence and a command line. `required` are flags that the command demands
    although the parser does not, and `remainder` is what follows `--`. The summary of a command without a
    group stands in the list of commands.
    """

    name: str
    summary: str = ""
    details: str = ""
    examples: tuple[tuple[str, str], ...] = ()
    flags: tuple[type[FlagGroup], ...] = ()
    line: str = ""
    required: tuple[str, ...] = ()
    takes_remainder: bool = False
    remainder: str = "TRAINER ARGUMENTS"

    @property
    def groups(self) -> tuple[type[FlagGroup], ...]:
        """All groups of flags, in the order of the help."""
        return groups_of(imported(self.line)) if self.line else self.flags


def imported(place: str) -> Any:
    """What `module:name` names; its module is imported now."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


class CommonFlags(FlagGroup, frozen=True):
    """The flags of every command, before or after its name."""

    heading: ClassVar[str] = COMMON

    project: str | None = flag("PROJECT_ID", "Google Cloud project, in place of the configured one.")
    format: str = text(
        "FORMAT", "Form of the result: json, yaml, value(KEYS), csv(KEYS), table(KEYS), …", offer=formats
    )
    flatten: list[str] = items("KEY[],…", "Print each element of these lists as a result of its own.")
    quiet: bool = switch("No prompts, no progress messages.", short="-q", has_opposite=True)
    notify: bool = switch(
        "When the command ends, ring the terminal's bell and show a notice.", has_opposite=True
    )
    verbosity: str = flag(
        "LEVEL",
        "Messages to print: debug, info, warning, error, critical or none.",
        default="warning",
        offer=verbosities,
    )
    user_output: bool | None = switch(
        "Print output. On by default.", default=None, name="user-output-enabled", has_opposite=True
    )
    flags_file: str = text("FILE", "Read flags from a YAML or JSON file.", offer=files)
    configuration: str = text("NAME", "Read this named configuration of gcloud.", offer=configurations)
    account: str = text("ACCOUNT", "Google account to use.")
    access_token_file: str = text("FILE", "Read the access token from this file.", offer=files)
    impersonate_service_account: str = text(
        "ACCOUNT,…", "Act as this service account. In a list, each account acts as the next one."
    )
    billing_project: str = text("PROJECT_ID", "Project whose quota is used.")
    api_version: str = flag(
        "VERSION", "Version of the API: v1 or v1beta1.", default="v1", offer=one_of("v1", "v1beta1")
    )
    log_http: bool = switch("Print HTTP requests and responses on stderr.", has_opposite=True)
    trace_token: str = text("TOKEN", "Token for Google to trace the requests.")


class PlaceFlags(FlagGroup, frozen=True):
    """The backend and the region of a resource."""

    heading: ClassVar[str] = PLACE

    backend: str = text(
        "NAME", "local, process, docker or vertex (default if a project is set).", offer=backends
    )
    region: str = text("REGION", REGION_HELP, offer=regions)


class NameFlag(FlagGroup, frozen=True):
    """The name of a resource: subclasses have one field, called as gcloud calls it."""

    @property
    def text(self) -> str:
        """The name as it is typed."""
        return str(getattr(self, self.__struct_fields__[0]))


class JobNameFlag(NameFlag, frozen=True):
    """The name of a job."""

    custom_job: str = argument("CUSTOM_JOB", f"{NAMES}.", offer=custom_jobs)


class TuningJobFlag(NameFlag, frozen=True):
    """The name of a hyperparameter tuning job."""

    hptuning_job: str = argument("HPTUNING_JOB", f"{NAMES}.", offer=tuning_jobs)


class NewestTuningFlag(NameFlag, frozen=True):
    """The name of a hyperparameter tuning job, for the short commands that may go without."""

    hptuning_job: str = argument("[HPTUNING_JOB]", f"{NAMES} (default).", default="@last", offer=tuning_jobs)


class PipelineFlag(NameFlag, frozen=True):
    """The name of a training pipeline."""

    training_pipeline: str = argument("TRAINING_PIPELINE", f"{NAMES}.", offer=training_pipelines)


class NewestFlag(NameFlag, frozen=True):
    """The name of a job, for the short commands that may go without."""

    job: str = argument("[JOB]", f"{NAMES} (default). {TRIAL_NAMES}", default="@last", offer=any_jobs)


class JobsFlag(FlagGroup, frozen=True):
    """The names of any number of jobs, for the short commands."""

    jobs: list[str] = argument(
        "[JOB]…",
        MANY_NAMES,
        default=[],
        offer=any_jobs,
    )


class SomeJobsFlag(JobsFlag, frozen=True):
    """The names of at least one job."""

    jobs: list[str] = argument(
        "JOB…",
        MANY_NAMES,
        default=[],
        offer=any_jobs,
    )


class FollowFlag(FlagGroup, frozen=True):
    """The switch that follows a log until the job ends."""

    heading: ClassVar[str] = "Log"

    follow: bool = switch("Follow the log until the job ends.", short="-f")


class WatchFlag(FlagGroup, frozen=True):
    """The switch that runs a job again after each saved file."""

    watch: bool = switch("Run again whenever a file of the trainer is saved, until Ctrl-C.")


class ResourceFlags(FlagGroup, frozen=True):
    """The flags of every `create`."""

    heading: ClassVar[str] = JOB

    display_name: str | None = flag("NAME", "Display name.", to="displayName")
    labels: list[str] = items(
        "KEY=VALUE,…", "Labels, such as team=vision,env=test.", to="labels", read=labels
    )
    network: str | None = flag("NETWORK", "VPC network to peer with.", panel=GOOGLE_CLOUD, to="network")
    kms_key: str | None = flag("KEY", "Cloud KMS key.", panel=GOOGLE_CLOUD)
    kms_keyring: str | None = flag("RING", "Cloud KMS key.", panel=GOOGLE_CLOUD)
    kms_location: str | None = flag("REGION", "Cloud KMS key.", panel=GOOGLE_CLOUD)
    kms_project: str | None = flag("PROJECT", "Cloud KMS key.", panel=GOOGLE_CLOUD)


class HelpFlags(FlagGroup, frozen=True):
    """The command whose help is shown, and its form."""

    heading: ClassVar[str] = OUTPUT

    words: list[str] = argument(
        "[COMMAND]",
        "A command, such as custom-jobs create, flags, a page of the documentation (topics lists them), or a "
        "word on one.",
        default=[],
        offer=commands,
    )
    man: bool = switch("Print a manual page (roff) of the command and of those below it.")


class SchemaFlag(FlagGroup, frozen=True):
    """The kind of file whose schema is printed."""

    heading: ClassVar[str] = OUTPUT

    kind: str = argument(
        "KIND",
        "custom-job, hp-tuning-job, persistent-resource or pyproject.",
        offer=one_of("custom-job", "hp-tuning-job", "persistent-resource", "pyproject"),
    )


class InitFlags(FlagGroup, frozen=True):
    """The program of the new job, and the switch that answers each question with its default."""

    heading: ClassVar[str] = OUTPUT

    entry: str | None = argument(
        "[SCRIPT|MODULE]", "Script or module to run. Default: the likeliest.", default=None, offer=files
    )
    yes: bool = switch("No questions; use the defaults.", short="-y")


class ReplicaFlags(FlagGroup, frozen=True):
    """The replica whose environment is shown."""

    heading: ClassVar[str] = JOB

    replica: str = flag("REPLICA", "Replica to show, such as workerpool1-0.", default="workerpool0-0")
    trial: str = text("N", "Show it as in this trial of a tuning job.")


class DryRunFlag(FlagGroup, frozen=True):
    """The switch that only shows the plan."""

    heading: ClassVar[str] = OUTPUT

    dry_run: bool = switch("Print what would be done, and do nothing.")


class KeyFlag(FlagGroup, frozen=True):
    """The key that makes a `create` safe to repeat."""

    heading: ClassVar[str] = JOB

    idempotency_key: str | None = flag(
        "KEY", "Create only one job for this key; return that job if it exists."
    )
    reuse_failed: bool = switch("With --idempotency-key: return a failed or cancelled job too.")


class PlaintextFlag(FlagGroup, frozen=True):
    """The switch that sends variables that look like secrets without a warning."""

    heading: ClassVar[str] = JOB

    allow_plaintext_secrets: bool = switch("Do not warn about variables that look like secrets.")


class InterruptFlag(FlagGroup, frozen=True):
    """The effect of Ctrl-C on the job."""

    heading: ClassVar[str] = WAITING

    on_interrupt: str = text(
        "ACTION",
        "Effect of Ctrl-C on the job: detach (it continues) or cancel.",
        offer=one_of("detach", "cancel"),
    )


class WaitFlags(FlagGroup, frozen=True):
    """Flags to wait for the end of a job, and how long."""

    heading: ClassVar[str] = WAITING

    stream_logs: bool = switch("Print the log until the job ends.")
    wait: bool = switch("Wait until the job ends.")
    wait_timeout: str = text("DURATION", "Longest wait; after it exit with 124, while the job continues.")


class TimeoutFlag(FlagGroup, frozen=True):
    """The longest wait."""

    heading: ClassVar[str] = WAITING

    wait_timeout: str = text("DURATION", "Longest wait; after it exit with 124, while the job continues.")


class ListFlags(FlagGroup, frozen=True):
    """The selection and the order of a list."""

    heading: ClassVar[str] = "Selection"

    filter: str = text("EXPRESSION", "Condition, such as state=JOB_STATE_FAILED.", offer=conditions)
    sort_by: str = text("KEY,…", "Sort by these keys; ~KEY sorts in descending order.")
    limit: str = flag("N", "Maximum number of results.", short="-n", default="unlimited")
    page_size: str = flag("N", "Rows per heading of a table.", default="unlimited")
    uri: bool = switch("Print only the URIs of the results.", has_opposite=True)


class JobListFlags(FlagGroup, frozen=True):
    """The selection of the short list of jobs."""

    heading: ClassVar[str] = "Selection"

    state: str = text("STATE,…", "Only jobs in these states, such as failed or running.", offer=states)
    all: bool = switch("Also the jobs that tuning jobs and training pipelines run.", short="-a")
    watch: bool = switch("On a terminal draw the list again and again, until Ctrl-C.")


class JobsToStopFlag(FlagGroup, frozen=True):
    """The switch that stops every job."""

    heading: ClassVar[str] = "Selection"

    all: bool = switch(
        "Stop all jobs of this machine that have not ended. Asks first; without a terminal it needs --quiet."
    )


class JobsToAwaitFlag(FlagGroup, frozen=True):
    """The switch that waits for every job."""

    heading: ClassVar[str] = "Selection"

    all: bool = switch("Wait for all jobs of this machine that have not ended.")


class MetricFlags(FlagGroup, frozen=True):
    """Arguments and metrics as columns of a list."""

    heading: ClassVar[str] = "Metrics"

    metrics: bool = switch(
        "Show arguments and last metrics, also of the experiments' runs that the emulator keeps."
    )
    columns: str = text("COLUMN,…", "Show these beside the fixed ones, such as args.lr,metrics.accuracy.")
    sort: str = text("COLUMN", "Sort by this one; ~COLUMN sorts in descending order.")


class BestFlag(FlagGroup, frozen=True):
    """The switch that leaves all trials but the best out."""

    heading: ClassVar[str] = "Selection"

    best: bool = switch("Print the best trial alone, with the folder of its model.")


class ReportFlags(FlagGroup, frozen=True):
    """The file of a report."""

    heading: ClassVar[str] = OUTPUT

    output: str | None = flag(
        "FILE",
        "The HTML file to write. Default: report.html in the job's output folder, or here if that is a "
        "bucket of Cloud Storage.",
        offer=files,
    )


class ComparedFlag(FlagGroup, frozen=True):
    """The jobs that are compared."""

    jobs: list[str] = argument(
        "[JOB]…",
        "Ids, full names, display names, @last or @last-1. By default the two newest jobs.",
        default=[],
        offer=any_jobs,
    )


class StreamFlags(FlagGroup, frozen=True):
    """The selection and the form of log lines."""

    heading: ClassVar[str] = "Log"

    task_name: str = text(
        "REPLICA", "Print only the lines of this replica, such as workerpool0-0.", offer=replicas
    )
    polling_interval: str = text("SECONDS", "Longest pause between two requests.")
    allow_multiline_logs: bool = switch("Keep newlines inside of messages.", has_opposite=True)


class LineFlags(FlagGroup, frozen=True):
    """The lines of a log that are wanted."""

    heading: ClassVar[str] = "Log"

    tail: str = text("N", "Print only the last N lines, and with -f what follows.")
    since: str = text("DURATION", "Print only lines of this time, such as 5m, up to now.")
    grep: str = text("TEXT", "Print only lines that have this text.")


class TaskFlag(FlagGroup, frozen=True):
    """The replica of a job that a command looks into."""

    task_name: str = text("REPLICA", "Replica, such as workerpool1-0. Default: the primary.", offer=replicas)


class CopyFlags(FlagGroup, frozen=True):
    """The files that are copied out of a job, and where to."""

    source: str = argument(
        "[JOB][:PATH]",
        "The job, by default the newest, and a path below its output folder or its working directory.",
        default="@last",
        offer=job_files,
    )
    target: str = argument(
        "[TARGET]", "File or folder to write; in an existing folder, below it.", default="."
    )


class TopFlags(FlagGroup, frozen=True):
    """The replicas that are measured, and how often."""

    job: str = argument("[JOB]", "Only this job's replicas.", default="", offer=custom_jobs)
    interval: str = flag("DURATION", "Time between two updates, such as 5s.", default="2s")
    once: bool = switch("Print the table once.")


class BoardFlags(FlagGroup, frozen=True):
    """The job whose logs TensorBoard shows."""

    job: str = argument("[JOB]", "Job; without one all of this machine.", default="", offer=custom_jobs)


class OutputDirFlag(FlagGroup, frozen=True):
    """The folder that a package is written to."""

    heading: ClassVar[str] = OUTPUT

    output_dir: str = flag(
        "DIR",
        "Where to write the package: a folder, file:///FOLDER or gs://BUCKET.",
        default="dist",
        offer=files,
    )


class DashboardFlags(FlagGroup, frozen=True):
    """The address of the dashboard, and the browser that shows it."""

    heading: ClassVar[str] = "Address"

    port: str = flag("N", "Port to listen on; 0 picks a free one.", default="0")
    no_browser: bool = switch("Only print the address; do not open a browser.")


class PruneFlags(FlagGroup, frozen=True):
    """The selection of what garbage collection removes."""

    heading: ClassVar[str] = "Selection"

    older_than: str | None = flag(
        "DURATION",
        "Remove what was not used for this time, such as 12h or 7d. Default: 30d. Caches and images of the "
        "last hour stay.",
    )
    kind: list[str] = items(
        "KIND,…",
        "Remove only these: job, environment, package, process, cgroup, temporary, image, runtime, "
        "container, network, output. Outputs of jobs are removed only if you name them.",
        offer=leftovers,
    )
    images: bool = switch(
        "Remove only images and other leftovers in Docker: of any age, unless --older-than is given."
    )
    all: bool = switch(
        "Remove leftovers of every kind and any age, outputs of jobs too, and list what stays, with the "
        "reason. Asks first; without a terminal it needs --quiet."
    )
    all_homes: bool = switch("Remove images of other vtrain homes too.")
