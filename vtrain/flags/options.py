"""The options of all commands, in groups. A command names its groups, and their fields are its flags.

Typer evaluates the annotations when it builds a command, so this module does not import `annotations`.
"""

from typing import Annotated, ClassVar

import msgspec
from typer import Argument, Option

from vtrain.flags.completion import (
    any_jobs,
    backends,
    commands,
    conditions,
    configurations,
    custom_jobs,
    files,
    formats,
    leftovers,
    one_of,
    regions,
    replicas,
    verbosities,
)

TRAINER = "Trainer"
JOB = "Job"
PLACE = "Backend and region"
OUTPUT = "Output"
WAITING = "Waiting"
LOCAL = "This machine (local backends)"
CONTAINERS = "Containers (backend docker)"
GOOGLE_CLOUD = "Google Cloud"
COMMON = "Common"
HEADINGS = (TRAINER, JOB, PLACE, OUTPUT, WAITING, LOCAL, CONTAINERS, GOOGLE_CLOUD)
"""The headings of flags in the order of a help page; other headings follow the job's. The common flags are
on a page of their own."""
COMMAND = "COMMAND"
"""The remainder of a command that runs another program."""
REGION_HELP = "Region of Vertex AI. Local backends need none."


WaitTimeout = Annotated[
    str,
    Option(
        "--wait-timeout",
        metavar="DURATION",
        help="Longest wait; after it exit with 124, while the job continues.",
    ),
]


class FlagGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group of flags; each field is one flag of the commands that take the group.

    `heading` is where the help lists them; an option with a `rich_help_panel` is listed there instead.
    """

    heading: ClassVar[str] = "Flags"


class CommandHelp(msgspec.Struct, frozen=True, kw_only=True):
    """The help of one command: its name, its texts, and its groups of flags.

    Each of the `examples` is a sentence and a command line. `required` are flags that the command demands
    although the parser does not, and `remainder` is what follows `--`. `heading` is where the root's help
    lists a command without a group.
    """

    name: str
    summary: str
    details: str = ""
    examples: tuple[tuple[str, str], ...] = ()
    flags: tuple[type[FlagGroup], ...]
    required: tuple[str, ...] = ()
    takes_remainder: bool = False
    remainder: str = "TRAINER ARGUMENTS"
    heading: str = ""


class CommonFlags(FlagGroup, frozen=True):
    """The flags of every command, before or after its name."""

    heading: ClassVar[str] = COMMON

    project: Annotated[
        str | None,
        Option(
            "--project",
            metavar="PROJECT_ID",
            help="Google Cloud project, in place of the configured one.",
        ),
    ] = None
    format: Annotated[
        str,
        Option(
            "--format",
            metavar="FORMAT",
            help="Form of the result: json, yaml, value(KEYS), csv(KEYS), table(KEYS), …",
            autocompletion=formats,
        ),
    ] = ""
    flatten: Annotated[
        list[str],
        Option(
            "--flatten",
            metavar="KEY[],…",
            help="Print each element of these lists as a result of its own.",
        ),
    ] = []
    quiet: Annotated[bool, Option("--quiet/--no-quiet", "-q", help="No prompts, no progress messages.")] = (
        False
    )
    verbosity: Annotated[
        str,
        Option(
            "--verbosity",
            metavar="LEVEL",
            help="Messages to print: debug, info, warning, error, critical or none.",
            autocompletion=verbosities,
        ),
    ] = "warning"
    user_output: Annotated[
        bool | None,
        Option("--user-output-enabled/--no-user-output-enabled", help="Print output. On by default."),
    ] = None
    flags_file: Annotated[
        str,
        Option(
            "--flags-file",
            metavar="FILE",
            help="Read flags from a YAML or JSON file.",
            autocompletion=files,
        ),
    ] = ""
    configuration: Annotated[
        str,
        Option(
            "--configuration",
            metavar="NAME",
            help="Read this named configuration of gcloud.",
            autocompletion=configurations,
        ),
    ] = ""
    account: Annotated[str, Option("--account", metavar="ACCOUNT", help="Google account to use.")] = ""
    access_token_file: Annotated[
        str,
        Option(
            "--access-token-file",
            metavar="FILE",
            help="Read the access token from this file.",
            autocompletion=files,
        ),
    ] = ""
    impersonate_service_account: Annotated[
        str,
        Option(
            "--impersonate-service-account",
            metavar="ACCOUNT,…",
            help="Act as this service account. In a list, each account acts as the next one.",
        ),
    ] = ""
    billing_project: Annotated[
        str, Option("--billing-project", metavar="PROJECT_ID", help="Project whose quota is used.")
    ] = ""
    api_version: Annotated[
        str,
        Option(
            "--api-version",
            metavar="VERSION",
            help="Version of the API: v1 or v1beta1.",
            autocompletion=one_of("v1", "v1beta1"),
        ),
    ] = "v1"
    log_http: Annotated[
        bool, Option("--log-http/--no-log-http", help="Print HTTP requests and responses on stderr.")
    ] = False
    trace_token: Annotated[
        str, Option("--trace-token", metavar="TOKEN", help="Token for Google to trace the requests.")
    ] = ""


class PlaceFlags(FlagGroup, frozen=True):
    """The backend and the region of a resource."""

    heading: ClassVar[str] = PLACE

    backend: Annotated[
        str,
        Option(
            "--backend",
            metavar="NAME",
            help="local, process, docker or vertex (default if a project is set).",
            autocompletion=backends,
        ),
    ] = ""
    region: Annotated[str, Option("--region", metavar="REGION", help=REGION_HELP, autocompletion=regions)] = (
        ""
    )


class NameFlag(FlagGroup, frozen=True):
    """The name of a resource: subclasses have one field, called as gcloud calls it."""

    @property
    def text(self) -> str:
        """The name as it is typed."""
        return str(getattr(self, self.__struct_fields__[0]))


class JobNameFlag(NameFlag, frozen=True):
    """The name of a job."""

    custom_job: Annotated[
        str,
        Argument(
            metavar="CUSTOM_JOB",
            help="Id or full name. On this machine also the id's first digits, the display name, or @last.",
            autocompletion=custom_jobs,
        ),
    ]


class JobFlag(NameFlag, frozen=True):
    """The name of a job, for the short commands."""

    job: Annotated[
        str,
        Argument(
            metavar="JOB",
            help="Id or full name. On this machine also the id's first digits, the display name, or @last.",
            autocompletion=any_jobs,
        ),
    ]


class FollowFlag(FlagGroup, frozen=True):
    """The switch that follows a log until the job ends."""

    heading: ClassVar[str] = "Log"

    follow: Annotated[bool, Option("--follow", "-f", help="Follow the log until the job ends.")] = False


class WatchFlag(FlagGroup, frozen=True):
    """The switch that runs a job again after each saved file."""

    watch: Annotated[
        bool, Option("--watch", help="Run again whenever a file of the trainer is saved, until Ctrl-C.")
    ] = False


class ResourceFlags(FlagGroup, frozen=True):
    """The flags of every `create`."""

    heading: ClassVar[str] = JOB

    display_name: Annotated[str | None, Option("--display-name", metavar="NAME", help="Display name.")] = None
    labels: Annotated[
        list[str], Option("--labels", metavar="KEY=VALUE,…", help="Labels, such as team=vision,env=test.")
    ] = []
    network: Annotated[
        str | None,
        Option(
            "--network",
            metavar="NETWORK",
            help="VPC network to peer with.",
            rich_help_panel=GOOGLE_CLOUD,
        ),
    ] = None
    kms_key: Annotated[
        str | None,
        Option(
            "--kms-key",
            metavar="KEY",
            help="Cloud KMS key.",
            rich_help_panel=GOOGLE_CLOUD,
        ),
    ] = None
    kms_keyring: Annotated[
        str | None,
        Option(
            "--kms-keyring",
            metavar="RING",
            help="Cloud KMS key.",
            rich_help_panel=GOOGLE_CLOUD,
        ),
    ] = None
    kms_location: Annotated[
        str | None,
        Option(
            "--kms-location",
            metavar="REGION",
            help="Cloud KMS key.",
            rich_help_panel=GOOGLE_CLOUD,
        ),
    ] = None
    kms_project: Annotated[
        str | None,
        Option(
            "--kms-project",
            metavar="PROJECT",
            help="Cloud KMS key.",
            rich_help_panel=GOOGLE_CLOUD,
        ),
    ] = None


class HelpFlags(FlagGroup, frozen=True):
    """The command whose help is shown, and its form."""

    heading: ClassVar[str] = OUTPUT

    words: Annotated[
        list[str],
        Argument(
            metavar="[COMMAND]",
            help="A command, such as custom-jobs create, or flags.",
            autocompletion=commands,
        ),
    ] = []
    man: Annotated[
        bool, Option("--man", help="Print a manual page (roff) of the command and of those below it.")
    ] = False


class SchemaFlag(FlagGroup, frozen=True):
    """The kind of file whose schema is printed."""

    heading: ClassVar[str] = OUTPUT

    kind: Annotated[
        str,
        Argument(
            metavar="KIND",
            help="custom-job, hp-tuning-job, persistent-resource or pyproject.",
            autocompletion=one_of("custom-job", "hp-tuning-job", "persistent-resource", "pyproject"),
        ),
    ]


class InitFlags(FlagGroup, frozen=True):
    """The switch that answers each question with its default."""

    heading: ClassVar[str] = OUTPUT

    yes: Annotated[bool, Option("--yes", "-y", help="No questions; use the defaults.")] = False


class ReplicaFlags(FlagGroup, frozen=True):
    """The replica whose environment is shown."""

    heading: ClassVar[str] = JOB

    replica: Annotated[
        str, Option("--replica", metavar="REPLICA", help="Replica to show, such as workerpool1-0.")
    ] = "workerpool0-0"
    trial: Annotated[
        str, Option("--trial", metavar="N", help="Show it as in this trial of a tuning job.")
    ] = ""


class DryRunFlag(FlagGroup, frozen=True):
    """The switch that only shows the plan."""

    heading: ClassVar[str] = OUTPUT

    dry_run: Annotated[bool, Option("--dry-run", help="Print what would be done, and do nothing.")] = False


class KeyFlag(FlagGroup, frozen=True):
    """The key that makes a `create` safe to repeat."""

    heading: ClassVar[str] = JOB

    idempotency_key: Annotated[
        str | None,
        Option(
            "--idempotency-key",
            metavar="KEY",
            help="Create only one job for this key; return that job if it exists.",
        ),
    ] = None
    reuse_failed: Annotated[
        bool,
        Option("--reuse-failed", help="With --idempotency-key: return a failed or cancelled job too."),
    ] = False


class PlaintextFlag(FlagGroup, frozen=True):
    """The switch that sends variables that look like secrets without a warning."""

    heading: ClassVar[str] = JOB

    allow_plaintext_secrets: Annotated[
        bool,
        Option("--allow-plaintext-secrets", help="Do not warn about variables that look like secrets."),
    ] = False


class InterruptFlag(FlagGroup, frozen=True):
    """The effect of Ctrl-C on the job."""

    heading: ClassVar[str] = WAITING

    on_interrupt: Annotated[
        str,
        Option(
            "--on-interrupt",
            metavar="ACTION",
            help="Effect of Ctrl-C on the job: detach (it continues) or cancel.",
            autocompletion=one_of("detach", "cancel"),
        ),
    ] = ""


class WaitFlags(FlagGroup, frozen=True):
    """Flags to wait for the end of a job, and how long."""

    heading: ClassVar[str] = WAITING

    stream_logs: Annotated[bool, Option("--stream-logs", help="Print the log until the job ends.")] = False
    wait: Annotated[bool, Option("--wait", help="Wait until the job ends.")] = False
    wait_timeout: WaitTimeout = ""


class TimeoutFlag(FlagGroup, frozen=True):
    """The longest wait."""

    heading: ClassVar[str] = WAITING

    wait_timeout: WaitTimeout = ""


class ListFlags(FlagGroup, frozen=True):
    """The selection and the order of a list."""

    heading: ClassVar[str] = "Selection"

    filter: Annotated[
        str,
        Option(
            "--filter",
            metavar="EXPRESSION",
            help="Condition, such as state=JOB_STATE_FAILED.",
            autocompletion=conditions,
        ),
    ] = ""
    sort_by: Annotated[
        str, Option("--sort-by", metavar="KEY,…", help="Sort by these keys; ~KEY sorts in descending order.")
    ] = ""
    limit: Annotated[str, Option("--limit", metavar="N", help="Maximum number of results.")] = "unlimited"
    page_size: Annotated[str, Option("--page-size", metavar="N", help="Rows per heading of a table.")] = (
        "unlimited"
    )
    uri: Annotated[bool, Option("--uri/--no-uri", help="Print only the URIs of the results.")] = False


class StreamFlags(FlagGroup, frozen=True):
    """The selection and the form of log lines."""

    heading: ClassVar[str] = "Log"

    task_name: Annotated[
        str,
        Option(
            "--task-name",
            metavar="REPLICA",
            help="Print only the lines of this replica, such as workerpool0-0.",
            autocompletion=replicas,
        ),
    ] = ""
    polling_interval: Annotated[
        str, Option("--polling-interval", metavar="SECONDS", help="Longest pause between two requests.")
    ] = ""
    allow_multiline_logs: Annotated[
        bool,
        Option("--allow-multiline-logs/--no-allow-multiline-logs", help="Keep newlines inside of messages."),
    ] = False


class TaskFlag(FlagGroup, frozen=True):
    """The replica of a job that a command looks into."""

    task_name: Annotated[
        str,
        Option(
            "--task-name",
            metavar="REPLICA",
            help="Replica, such as workerpool1-0. Default: the primary.",
            autocompletion=replicas,
        ),
    ] = ""


class CopyFlags(FlagGroup, frozen=True):
    """The files that are copied out of a job, and where to."""

    source: Annotated[
        str,
        Argument(
            metavar="JOB:PATH",
            help="The job, and a path below its output folder or its working directory.",
            autocompletion=custom_jobs,
        ),
    ]
    target: Annotated[
        str, Argument(metavar="[TARGET]", help="File or folder to write; in an existing folder, below it.")
    ] = "."


class TopFlags(FlagGroup, frozen=True):
    """The replicas that are measured, and how often."""

    job: Annotated[
        str,
        Argument(metavar="[JOB]", help="Only this job's replicas.", autocompletion=custom_jobs),
    ] = ""
    interval: Annotated[
        str, Option("--interval", metavar="DURATION", help="Time between two updates, such as 5s.")
    ] = "2s"
    once: Annotated[bool, Option("--once", help="Print the table once.")] = False


class BoardFlags(FlagGroup, frozen=True):
    """The job whose logs TensorBoard shows."""

    job: Annotated[
        str,
        Argument(metavar="[JOB]", help="Job; without one all of this machine.", autocompletion=custom_jobs),
    ] = ""


class OutputDirFlag(FlagGroup, frozen=True):
    """The folder that a package is written to."""

    heading: ClassVar[str] = OUTPUT

    output_dir: Annotated[
        str,
        Option(
            "--output-dir",
            metavar="DIR",
            help="Where to write the package: a folder, file:///FOLDER or gs://BUCKET.",
            autocompletion=files,
        ),
    ] = "dist"


class DashboardFlags(FlagGroup, frozen=True):
    """The address of the dashboard, and the browser that shows it."""

    heading: ClassVar[str] = "Address"

    port: Annotated[str, Option("--port", metavar="N", help="Port to listen on; 0 picks a free one.")] = "0"
    no_browser: Annotated[
        bool, Option("--no-browser", help="Only print the address; do not open a browser.")
    ] = False


class PruneFlags(FlagGroup, frozen=True):
    """The selection of what garbage collection removes."""

    heading: ClassVar[str] = "Selection"

    older_than: Annotated[
        str | None,
        Option(
            "--older-than",
            metavar="DURATION",
            help="Remove what was not used for this time, such as 12h or 7d. Default: 30d. "
            "Caches and images of the last hour stay.",
        ),
    ] = None
    kind: Annotated[
        list[str],
        Option(
            "--kind",
            metavar="KIND,…",
            help="Remove only these: job, environment, package, process, cgroup, temporary, image, "
            "runtime, container, network, output. Outputs of jobs are removed only if you name "
            "them.",
            autocompletion=leftovers,
        ),
    ] = []
    images: Annotated[
        bool,
        Option(
            "--images",
            help="Remove only images and other leftovers in Docker: of any age, unless --older-than "
            "is given.",
        ),
    ] = False
    all_homes: Annotated[
        bool,
        Option("--all-homes", help="Remove images of other vtrain homes too."),
    ] = False
