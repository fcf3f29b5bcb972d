"""The flags that concern containers, as values: Docker's own grammar of sizes, mounts and limits.

And `--credentials`, which replicas of the backend process are given too. Without that flag a job has none.
"""

from __future__ import annotations

import csv
import ipaddress
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

from vtrain.backends import PULL_POLICIES, Mount, ReplicaOptions, Ulimit
from vtrain.backends.interface import CREDENTIALS_FLAG
from vtrain.errors import ConfigError, UsageError
from vtrain.flags.grammar import size_in_bytes
from vtrain.flags.job_options import ContainerFlags, GpuFlags
from vtrain.flags.row import given_flags
from vtrain.messages.nearest import did_you_mean
from vtrain.properties import gcloud_folder
from vtrain.settings import user_path

ULIMITS = frozenset(
    "core cpu data fsize locks memlock msgqueue nice nofile nproc rss rtprio rttime sigpending stack".split()
)
CAPABILITIES = frozenset(
    "AUDIT_CONTROL AUDIT_READ AUDIT_WRITE BLOCK_SUSPEND BPF CHECKPOINT_RESTORE CHOWN DAC_OVERRIDE "
    "DAC_READ_SEARCH FOWNER FSETID IPC_LOCK IPC_OWNER KILL LEASE LINUX_IMMUTABLE MAC_ADMIN MAC_OVERRIDE "
    "MKNOD NET_ADMIN NET_BIND_SERVICE NET_BROADCAST NET_RAW PERFMON SETFCAP SETGID SETPCAP SETUID SYSLOG "
    "SYS_ADMIN SYS_BOOT SYS_CHROOT SYS_MODULE SYS_NICE SYS_PACCT SYS_PTRACE SYS_RAWIO SYS_RESOURCE SYS_TIME "
    "SYS_TTY_CONFIG WAKE_ALARM ALL".split()
)
"""The capabilities of Linux 6 (capabilities(7)), and Docker's word for all of them."""
LEAST_CPUS = 0.01
"""The engine gives no container less."""
MOST_CPUS = 100_000
HOST_GATEWAY = "host-gateway"
"""Docker's word for the address of this machine."""
MountType = Literal["bind", "volume", "tmpfs"]
MOUNT_KEYS = {
    "type": "type",
    "source": "source",
    "src": "source",
    "target": "target",
    "destination": "target",
    "dst": "target",
    "readonly": "readonly",
    "ro": "readonly",
    "tmpfs-size": "tmpfs-size",
}
TAKEN = {"/gcs": "the buckets are mounted", "/opt/vtrain": "the trainer's code is mounted"}
"""Folders of a container that are vtrain's own."""
MOUNT_EXAMPLE = "Write type=bind,source=FOLDER,target=/FOLDER."
_MOUNT_SWITCH = {"true": True, "1": True, "false": False, "0": False}
KEY_FLAG = "--service-account-key-file"
NO_CREDENTIALS, OWN_CREDENTIALS = "none", "adc"
CREDENTIALS_HINT = "Take none, adc or the path of a file."
ADC_FILE = "application_default_credentials.json"
_ELSEWHERE = ("--bake", "--output-image-uri", "--docker-run-options", CREDENTIALS_FLAG, KEY_FLAG)
_PLATFORM = re.compile(r"[a-z0-9]+/[a-z0-9_]+(?:/[a-z0-9]+)?")
_HOST = re.compile(r"([^\s:=]+)[:=](\S+)")
_ULIMIT = re.compile(r"([a-z]+)=(-1|[0-9]{1,18})(?::(-1|[0-9]{1,18}))?")


def replica_options(flags: ContainerFlags, gpu: GpuFlags | None = None) -> ReplicaOptions:
    """The options of replicas.

    An empty value is refused, since it usually comes from a variable that is not set. An empty value of
    gcloud's own flags counts as none.

    Raises UsageError where one does not parse, ConfigError where a file that is named is missing.
    """
    return ReplicaOptions(
        pull=pull_policy(flags.pull),
        platform=platform_name(flags.platform),
        shm_size=size_in_bytes(flags.shm_size, "--shm-size") if flags.shm_size is not None else 0,
        memory_bytes=size_in_bytes(flags.memory, "--memory") if flags.memory is not None else 0,
        cpus=_processors(flags.cpus) if flags.cpus is not None else 0.0,
        mounts=read_mounts(flags.mount),
        user=_user(flags.user),
        cap_add=tuple(_capability(text) for text in flags.cap_add),
        add_hosts=tuple(read_host(text) for text in flags.add_host),
        ulimits=tuple(read_ulimit(text) for text in flags.ulimit),
        gpus=gpu.gpu if gpu is not None else False,
        require_accelerators=flags.require_accelerators,
        credentials_file=credentials_file(
            flags.credentials, gpu.service_account_key_file if gpu is not None else None
        ),
    )


def container_flags(flags: ContainerFlags, gpu: GpuFlags | None = None) -> tuple[str, ...]:
    """The flags that were given although only containers use them.

    `--bake` and `--output-image-uri` are not among them: they change how the trainer is packaged; nor are
    `--credentials`, which processes are given too, and gcloud's `--docker-run-options`, which nothing uses.
    """
    given = [*given_flags(flags), *(given_flags(gpu) if gpu is not None else ())]
    return tuple(flag for flag in given if flag not in _ELSEWHERE)


def pull_policy(text: str | None) -> str:
    """`--pull`, by default missing."""
    policy = "missing" if text is None else text
    if policy not in PULL_POLICIES:
        raise UsageError(f"--pull: expected missing, always or never, found {text!r}.")
    return policy


def platform_name(text: str | None) -> str:
    """`--platform`, such as linux/amd64; empty, where it is not given, leaves it to the engine."""
    if text is None:
        return ""
    if not _PLATFORM.fullmatch(text):
        raise UsageError(f"--platform: {text!r} is not a platform.", hint="Write linux/amd64 or linux/arm64.")
    return text


def read_ulimit(text: str) -> Ulimit:
    """One `--ulimit`: `NAME=SOFT[:HARD]`, -1 for unlimited."""
    match = _ULIMIT.fullmatch(text)
    if match is None:
        raise UsageError(f"--ulimit: {text!r} is not NAME=SOFT[:HARD].", hint="Write nofile=1024:4096.")
    name, soft, hard = match[1], int(match[2]), int(match[3] or match[2])
    if name not in ULIMITS:
        raise UsageError(
            f"--ulimit: there is no limit {name!r}.", hint=f"There are {', '.join(sorted(ULIMITS))}."
        )
    if hard != -1 and not -1 < soft <= hard:
        raise UsageError(f"--ulimit: the soft limit of {text!r} is above the hard one.")
    return Ulimit(name=name, soft=soft, hard=hard)


def read_host(text: str) -> str:
    """One `--add-host`, as the engine takes it: `NAME:ADDRESS`. Like Docker, takes `NAME=ADDRESS` too."""
    match = _HOST.fullmatch(text)
    if match is None:
        raise UsageError(f"--add-host: {text!r} is not NAME:ADDRESS.")
    address = match[2].removeprefix("[").removesuffix("]")
    if address != HOST_GATEWAY and not _is_address(address):
        raise UsageError(
            f"--add-host: {address!r} is not an IP address.",
            hint=f"Write {match[1]}:{HOST_GATEWAY} for the address of this machine.",
        )
    return f"{match[1]}:{address}"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _processors(text: str) -> float:
    try:
        count = float(text)
    except ValueError:
        count = 0.0
    if 0 < count < LEAST_CPUS:
        raise UsageError(f"--cpus: {text!r} is too small; the least is {LEAST_CPUS}.")
    if not LEAST_CPUS <= count <= MOST_CPUS:
        raise UsageError(f"--cpus: {text!r} is not a number of processors.", hint="Write 2 or 0.5.")
    return count


def _user(text: str | None) -> str:
    if text is None:
        return ""
    if not re.fullmatch(r"[^\s:]+(:[^\s:]+)?", text):
        raise UsageError(f"--user: {text!r} is not USER[:GROUP].", hint="Write 1000:1000.")
    return text


def _capability(text: str) -> str:
    name = text.upper().removeprefix("CAP_")
    if name in CAPABILITIES:
        return name
    hint = did_you_mean(name, CAPABILITIES, otherwise="capabilities(7) has them all.")
    raise UsageError(f"--cap-add: there is no capability {text!r}.", hint=hint)


def credentials_file(chosen: str | None, key_file: str | None = None) -> str:
    """The file that `--credentials` or gcloud's `--service-account-key-file` names; empty for no credentials.

    Raises UsageError for an empty value and for both flags, ConfigError for a file that cannot be read.
    """
    if key_file and chosen is not None:
        raise UsageError(f"{CREDENTIALS_FLAG} and {KEY_FLAG} exclude each other.")
    if key_file:
        return _readable(user_path(key_file), KEY_FLAG)
    if chosen is None or chosen == NO_CREDENTIALS:
        return ""
    if not chosen:
        raise UsageError(f"{CREDENTIALS_FLAG}: the value is empty.", hint=CREDENTIALS_HINT)
    if chosen == OWN_CREDENTIALS:
        hint = "Make it with: gcloud auth application-default login"
        return _readable(credentials_place(), f"{CREDENTIALS_FLAG}={OWN_CREDENTIALS}", hint)
    return _readable(user_path(chosen), CREDENTIALS_FLAG, CREDENTIALS_HINT)


def credentials_place() -> Path:
    """The place of Application Default Credentials, where Google's libraries look for them."""
    named = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    return user_path(named) if named else gcloud_folder() / ADC_FILE


def _readable(path: Path, flag: str, hint: str = "") -> str:
    path = path.absolute()
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        what = f"is {kind}, not a file" if path.exists() else "does not exist"
        raise ConfigError(f"{flag}: {path} {what}.", hint=hint)
    if not os.access(path, os.R_OK):
        raise ConfigError(f"{flag}: {path} cannot be read.")
    return str(path)


# --mount


def read_mount(text: str) -> Mount:
    """One `--mount`; without a type it is a volume.

    Raises UsageError where it does not parse, ConfigError where there is nothing to bind.
    """
    values = dict(_mount_items(text))
    kind = _mount_type(values.get("type", "volume"))
    source = values.get("source", "")
    _check_mount_source(kind, source, values)
    return Mount(
        type=kind,
        source=str(_bound_path(source)) if kind == "bind" else source,
        target=_mount_target(values.get("target", "")),
        read_only=_is_read_only(values.get("readonly", "false")),
        tmpfs_size=size_in_bytes(values["tmpfs-size"], "--mount: tmpfs-size")
        if "tmpfs-size" in values
        else 0,
    )


def read_mounts(texts: Sequence[str]) -> tuple[Mount, ...]:
    """All `--mount`s of a command line. Raises UsageError for two at one place."""
    mounts = tuple(read_mount(text) for text in texts)
    targets = [posixpath.normpath(mount.target) for mount in mounts]
    twice = next((target for target in targets if targets.count(target) > 1), "")
    if twice:
        raise UsageError(f"--mount: two have the target {twice}.")
    return mounts


def _mount_items(text: str) -> Iterator[tuple[str, str]]:
    """Keys and values, split as Docker does it: as one row of CSV, so that a quoted item may hold a comma."""
    try:
        row = next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise UsageError(f"--mount: {text!r} does not parse: {error}.", hint=MOUNT_EXAMPLE) from error
    for item in row:
        word, equals, value = item.partition("=")
        key = MOUNT_KEYS.get(word.strip().lower())
        if key is None:
            raise UsageError(
                f"--mount: there is no key {word!r}.", hint=f"The keys are {', '.join(MOUNT_KEYS)}."
            )
        if not equals and key != "readonly":
            raise UsageError(f"--mount: expected {word}=VALUE, found {item!r}.", hint=MOUNT_EXAMPLE)
        yield key, value if equals else "true"


def _mount_type(text: str) -> MountType:
    for known in get_args(MountType):
        if text.lower() == known:
            found: MountType = known
            return found
    raise UsageError(f"--mount: there is no type {text!r}.", hint="Take bind, volume or tmpfs.")


def _check_mount_source(kind: MountType, source: str, values: dict[str, str]) -> None:
    if kind == "tmpfs" and source:
        raise UsageError("--mount: type=tmpfs has no source.")
    if kind != "tmpfs" and not source:
        raise UsageError(f"--mount: type={kind} needs source=…", hint=MOUNT_EXAMPLE)
    if kind == "volume" and source.startswith((".", "/", "~")):
        raise UsageError(
            f"--mount: {source} is no name of a volume.", hint=f"To bind a folder: {MOUNT_EXAMPLE}"
        )
    if kind != "tmpfs" and "tmpfs-size" in values:
        raise UsageError("--mount: tmpfs-size goes with type=tmpfs only.")


def _mount_target(text: str) -> str:
    if not text.startswith("/") or not text.strip("/"):
        raise UsageError(f"--mount: target={text} is no absolute path below /.", hint="Write target=/FOLDER.")
    target = posixpath.normpath(text)
    taken = next((own for own in TAKEN if target == own or target.startswith(f"{own}/")), "")
    if taken:
        raise UsageError(
            f"--mount: target={text} lies in {taken}, where {TAKEN[taken]}.", hint="Take another folder."
        )
    return text


def _is_read_only(text: str) -> bool:
    if text.lower() not in _MOUNT_SWITCH:
        raise UsageError(f"--mount: readonly={text} is neither true nor false.")
    return _MOUNT_SWITCH[text.lower()]


def _bound_path(text: str) -> Path:
    path = user_path(text).absolute()
    if not path.exists():
        raise ConfigError(f"--mount: {path} does not exist.", hint="Docker binds only what is there.")
    return path
