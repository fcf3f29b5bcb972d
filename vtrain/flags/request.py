"""From the values of flags to a JobRequest: gcloud's grammar, and the rules between flags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from vtrain.core.compose import JobRequest, make_source
from vtrain.core.pools import COUNTS, EXTRA_KEYS, FLAG, KEYS, Pool
from vtrain.errors import UsageError
from vtrain.flags.grammar import join_lists, split_dict, split_list, whole_number
from vtrain.flags.job_options import SpecFlags, TrainerFlags
from vtrain.flags.resource_fields import kms_key_name
from vtrain.flags.row import fields_of
from vtrain.messages.rules import ENV_NAME
from vtrain.packaging.source import TrainerSource

PACKAGE_FORMATS = ("auto", "sdist", "image")


def job_request(spec: SpecFlags, trainer: TrainerFlags, remainder: tuple[str, ...] | None) -> JobRequest:
    """The request of the flags, without the encryption key, whose project is found later (`with_key_of`).

    Raises UsageError where a flag does not parse, ConfigError where one is wrong.
    """
    check_format(trainer)
    env, env_names = split_env(spec.env)
    return JobRequest(
        config=spec.config,
        allow_unknown_fields=spec.allow_unknown_fields,
        pools=parse_pools(spec.worker_pool_spec),
        args=_trainer_arguments(spec.args, remainder),
        command=join_lists(spec.command, "--command"),
        package_uris=split_list(spec.python_package_uris, "--python-package-uris"),
        env=env,
        env_names=env_names,
        assignments=tuple(spec.assignments),
        fields=fields_of(spec),
        source=trainer_source(trainer),
        executor_image_uri=trainer.executor_image_uri,
    )


def with_key_of(request: JobRequest, spec: SpecFlags, project: str) -> JobRequest:
    """The request with the encryption key that the flags name; `project` owns it unless they say another."""
    key = kms_key_name(spec, project)
    fields = request.fields | ({"encryptionSpec": {"kmsKeyName": key}} if key else {})
    return msgspec.structs.replace(request, fields=fields)


def parse_pools(values: Sequence[str]) -> tuple[Pool, ...]:
    """The pools of repeated `--worker-pool-spec` flags. Raises UsageError where one does not parse.

    A list inside a pool is split on `;`, or by its own `^D^`.
    """
    return tuple(
        {key: _pool_value(key, text) for key, text in split_dict(value, FLAG, KEYS).items()}
        for value in values
    )


def _pool_value(key: str, text: str) -> Any:
    if key in COUNTS:
        return whole_number(text, f"{FLAG}: {key}")
    return split_list(text, f"{FLAG}: {key}", ";") if key in EXTRA_KEYS else text


def split_env(values: Iterable[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """`--env`, repeated: the variables with a value, and the names whose value the caller has.

    A value may hold anything, commas too. Of a name that is given twice the last counts. Raises UsageError
    for what is neither.
    """
    given: dict[str, str | None] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not ENV_NAME.fullmatch(name):
            raise UsageError(
                f"--env: expected NAME=VALUE or NAME, found {text!r}.",
                hint="Repeat --env for each variable.",
            )
        given[name] = value if equals else None
    with_value = {name: value for name, value in given.items() if value is not None}
    return with_value, tuple(name for name, value in given.items() if value is None)


def trainer_source(trainer: TrainerFlags) -> TrainerSource | None:
    """The trainer that `--local-package-path` and its companions name; None without it."""
    lists = {
        "requirements": split_list(trainer.requirements, "--requirements"),
        "extra_packages": split_list(trainer.extra_packages, "--extra-packages"),
        "extra_dirs": split_list(trainer.extra_dirs, "--extra-dirs"),
    }
    if trainer.python_module and trainer.script:
        raise UsageError("--python-module and --script exclude each other.")
    if trainer.local_package_path is None:
        check_has_folder([trainer.python_module, trainer.script, *lists.values()])
        return None
    return make_source(
        in_pool_spec=False,
        folder=trainer.local_package_path,
        python_module=trainer.python_module,
        script=trainer.script,
        **lists,
    )


def check_has_folder(given: Iterable[object]) -> None:
    """Raise UsageError where something is given about a trainer, and its folder is not."""
    if any(given):
        raise UsageError("--python-module, --script and --requirements need --local-package-path=DIR.")


def check_format(trainer: TrainerFlags) -> None:
    """Raise UsageError for a package format that is unknown."""
    if trainer.package_format not in PACKAGE_FORMATS:
        raise UsageError(
            f"--package-format: expected auto, sdist or image, found {trainer.package_format!r}."
        )


def _trainer_arguments(args: list[str], remainder: tuple[str, ...] | None) -> tuple[str, ...]:
    if args and remainder is not None:
        raise UsageError("--args and '--' both give the trainer's arguments; take one of them.")
    return remainder if remainder is not None else join_lists(args, "--args")
