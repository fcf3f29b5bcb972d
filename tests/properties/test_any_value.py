"""What flags hold: any text is read or refused in a sentence, and what was written is what is read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from vtrain.commands.persistent_resources import KEYS as RESOURCE_KEYS
from vtrain.commands.persistent_resources import (
    check_flag_pools,
    parse_resource_pools,
    resource_pool_document,
    unused_keys,
)
from vtrain.core.compose import check_executors
from vtrain.core.project_job import EXTRA_KEYS
from vtrain.errors import ConfigError, UsageError, VtrainError
from vtrain.flags import containers, grammar
from vtrain.flags.containers import read_mounts
from vtrain.flags.flags_file import expand_flags_files
from vtrain.flags.job_options import ContainerFlags
from vtrain.flags.request import check_pools, parse_pools, pools_document
from vtrain.messages.codec import read_message
from vtrain.messages.custom_job import WorkerPoolSpec
from vtrain.messages.persistent_resource import ResourcePool
from vtrain.output.language.yaml_writer import dump_yaml

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
DIGITS = st.from_regex(r"[-+]?[0-9_]{1,25}", fullmatch=True) | st.integers(1, 9000).map(lambda n: "9" * n)
NUMBERS = TEXT | DIGITS | st.sampled_from(["0", "1", "007", " 1", "1e3", "٣", "-1", "+1", "1_0", ""])
LISTS = st.text("^;,:=a 1", max_size=16)


@pytest.mark.parametrize(
    "read",
    [
        lambda text: grammar.whole_number(text, "--a"),
        lambda text: grammar.count_or_unlimited(text, "--a"),
        lambda text: grammar.duration_seconds(text, "--a"),
        lambda text: grammar.proto_duration(text, "--a"),
        lambda text: grammar.split_list(text, "--a"),
        lambda text: grammar.split_dict(text, "--a"),
        lambda text: grammar.split_env([text]),
        lambda text: grammar.join_dicts([text, text], "--a"),
        lambda text: grammar.labels([text], "--labels"),
        lambda text: parse_pools([text]),
        lambda text: parse_resource_pools([text]),
        lambda text: parse_resource_pools([f"replica-count={text}"]),
        containers.pull_policy,
        containers.platform_name,
        containers.read_ulimit,
        containers.read_host,
        lambda text: containers.replica_options(ContainerFlags(cpus=text)),
        lambda text: containers.replica_options(ContainerFlags(memory=text)),
        lambda text: containers.replica_options(ContainerFlags(user=text)),
        lambda text: containers.replica_options(ContainerFlags(cap_add=[text])),
        lambda text: read_mounts([text, text]),
    ],
)
@given(text=TEXT | NUMBERS | LISTS)
def test_any_text_is_read_or_refused(read: Callable[[str], object], text: str) -> None:
    try:
        read(text)
    except VtrainError as refusal:
        assert refusal.exit_code in (1, 2)
        assert refusal.message.endswith((".", "…"))


@given(st.integers())
def test_a_whole_number_comes_back(number: int) -> None:
    assert grammar.whole_number(f" {number} ", "--a") == number


@given(NUMBERS | st.from_regex(r"([0-9]{1,400}(\.[0-9]{1,20})?[smhdw]?){1,4}", fullmatch=True))
@example("9" * 400)
def test_a_duration_is_one_that_the_api_takes(text: str) -> None:
    try:
        written = grammar.proto_duration(text, "--a")
    except UsageError:
        return
    assert re.fullmatch(r"[0-9]+(\.[0-9]{1,9})?s", written)
    assert math.isfinite(grammar.duration_seconds(text, "--a"))


@given(st.lists(st.tuples(st.integers(0, 9999), st.sampled_from("smhdw")), min_size=1, max_size=4))
def test_the_parts_of_a_duration_add_up(parts: list[tuple[int, str]]) -> None:
    seconds = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
    text = "".join(f"{number}{unit}" for number, unit in parts)
    total = sum(number * seconds[unit] for number, unit in parts)
    assert grammar.duration_seconds(text, "--a") == total
    assert grammar.proto_duration(text, "--a") == f"{total}s"


@given(LISTS)
def test_what_was_split_splits_the_same_when_it_is_joined(text: str) -> None:
    try:
        items = grammar.split_list(text, "--a")
    except UsageError:
        return
    assert grammar.split_list(grammar.join_items(items), "--a") == items


@given(st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True), TEXT))
def test_the_environment_comes_back(env: dict[str, str]) -> None:
    assert grammar.split_env(f"{name}={value}" for name, value in env.items()) == (env, ())


POOL_VALUES = st.sampled_from(
    ["", "n1-standard-4", "1", "2", "NVIDIA_L4", "TPU_V3", "a;b", "trainer.task", "x,y"]
)
POOLS = st.dictionaries(st.sampled_from(sorted(grammar.POOL_KEYS)), POOL_VALUES | TEXT, max_size=7)


def pool_value(key: str, text: str) -> str | int | tuple[str, ...]:
    """The value of a pool's key: a count, a list, or the text itself."""
    if key in ("replica-count", "accelerator-count"):
        return int(text)
    return grammar.split_list(text, key, ";") if key in EXTRA_KEYS else text


@given(st.lists(POOLS, min_size=1, max_size=4), st.booleans())
def test_pools_are_what_the_api_takes_or_refused(pools: list[dict[str, str]], required: bool) -> None:
    texts = [grammar.join_items([f"{key}={value}" for key, value in pool.items()]) for pool in pools]
    try:
        read = parse_pools(texts)
    except UsageError:
        return
    assert list(read) == [{key: pool_value(key, text) for key, text in pool.items()} for pool in pools]
    try:
        check_pools(read)
        documents = pools_document(read)
        for document in documents:
            read_message(WorkerPoolSpec, document)
        check_executors(documents if required else [], packaged="local-package-path" in read[0])
    except VtrainError as refusal:
        assert refusal.exit_code in (1, 2)


RESOURCE_POOLS = st.dictionaries(
    st.sampled_from(sorted(RESOURCE_KEYS)),
    st.sampled_from(["", "0", "1", "-1", "n1-standard-4", "NVIDIA_L4"]),
)


@given(st.lists(RESOURCE_POOLS, max_size=3))
def test_resource_pools_are_what_the_api_takes_or_refused(pools: list[dict[str, str]]) -> None:
    texts = [grammar.join_items([f"{key}={value}" for key, value in pool.items()]) for pool in pools]
    try:
        read = parse_resource_pools(texts)
        check_flag_pools(read)
    except VtrainError as refusal:
        assert refusal.exit_code in (1, 2)
        return
    unused_keys(read)
    for pool in read:
        read_message(ResourcePool, resource_pool_document(pool))


@given(st.dictionaries(TEXT, TEXT, min_size=1, max_size=3))
def test_labels_are_what_the_service_takes_or_refused(labels: dict[str, str]) -> None:
    text = grammar.join_items([f"{key}={value}" for key, value in labels.items()])
    try:
        read = grammar.labels([text], "--labels")
    except UsageError as refusal:
        assert refusal.message.startswith("--labels: ")
        return
    assert read == labels
    assert all(len(key) <= 63 and key == key.lower() for key in labels)


FLAG_NAMES = st.from_regex(r"--[a-z]{1,6}(-[a-z]{1,4})?", fullmatch=True).filter(
    lambda name: name not in ("--flags-file", "--env", "--set")
)
ITEM = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff"), max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(flags=st.dictionaries(FLAG_NAMES, ITEM | st.lists(ITEM, max_size=4), min_size=1, max_size=4))
def test_a_flags_file_says_what_the_flags_would(tmp_path: Path, flags: dict[str, Any]) -> None:
    file = tmp_path / "flags.yaml"
    file.write_text(dump_yaml(flags), encoding="utf-8")
    words = expand_flags_files(["before", f"--flags-file={file}", "after"])
    assert (words[0], words[-1]) == ("before", "after")
    found = dict(word.split("=", 1) for word in words[1:-1])
    assert found.keys() == flags.keys()
    for name, wanted in flags.items():
        read = grammar.split_list(found[name], name) if isinstance(wanted, list) else found[name]
        assert read == (tuple(wanted) if isinstance(wanted, list) else wanted)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(content=st.binary(max_size=40) | st.text("-: {}[]\"'ab\n~!&*", max_size=30).map(str.encode))
def test_any_file_is_flags_or_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "flags.yaml"
    file.write_bytes(content)
    try:
        words = expand_flags_files(["--flags-file", str(file)])
    except (ConfigError, UsageError):
        return
    assert all(word.startswith("-") for word in words)
