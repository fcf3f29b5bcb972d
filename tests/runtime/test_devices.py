"""The GPUs of this machine, as a stand-in for nvidia-smi lists them, and which of them jobs may have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vtrain.errors import ConfigError
from vtrain.runtime.capacity import offer
from vtrain.runtime.capacity.offer import DeviceUse, device_uses, find_devices, machine_offer

pytestmark = pytest.mark.child

TABLE = """\
1, GPU-22222222-edf7-7955-815c-2e758f022392, NVIDIA L4, 23034 MiB
0, GPU-11111111-edf7-7955-815c-2e758f022392, NVIDIA L4, 23034 MiB
"""
FIRST, SECOND = (f"GPU-{digit * 8}-edf7-7955-815c-2e758f022392" for digit in "12")


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, f"cat <<'END'\n{TABLE}END")


def offered() -> tuple[str, ...] | None:
    return machine_offer(accelerators=True).accelerators


def test_gpus_are_listed_by_index(two_gpus: None) -> None:
    found = find_devices()
    assert found is not None
    assert [(device.index, device.uuid) for device in found] == [("0", FIRST), ("1", SECOND)]
    assert (found[0].name, found[0].memory) == ("NVIDIA L4", "23034 MiB")


def test_the_tool_is_asked_for_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/asked')
    assert find_devices() == ()
    assert (tmp_path / "asked").read_text().split() == [
        "--query-gpu=index,uuid,name,memory.total",
        "--format=csv,noheader",
    ]


def test_without_the_tool_nobody_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_devices() is None
    assert offered() is None


@pytest.mark.parametrize("script", ["echo 'NVIDIA-SMI has failed'; exit 9", "exit 1", "kill -9 $$"])
def test_a_tool_that_fails_lists_nothing(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, script)
    assert find_devices() is None


@pytest.mark.parametrize("text", ["No devices were found", "\\377\\376, , ,", "x, GPU-1, A, B", "0, , A, B"])
def test_what_is_no_row_is_passed_over(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, f"printf '{text}\\n'")
    assert find_devices() == ()


def test_gpus_are_not_asked_for_when_nobody_wants_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, f"touch {tmp_path}/asked")
    assert machine_offer(accelerators=False).accelerators is None
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize(
    ("limit", "allowed"),
    [
        ("none", ()),
        ("1", (SECOND,)),
        ("1,0", (SECOND, FIRST)),
        (f"{FIRST}, 0", (FIRST,)),
    ],
)
def test_jobs_may_be_given_some_only(
    limit: str, allowed: tuple[str, ...], two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VTRAIN_ACCELERATORS", limit)
    assert offered() == allowed


@pytest.mark.parametrize("limit", ["all of them", "0,,1", "-1", "GPU"])
def test_what_is_no_list_is_refused(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VTRAIN_ACCELERATORS", limit)
    with pytest.raises(ConfigError) as caught:
        machine_offer(accelerators=False)
    assert caught.value.message == f"VTRAIN_ACCELERATORS: {limit!r} is not a list of GPUs."
    assert caught.value.hint == ("Write none, indexes (0,1) or UUIDs (GPU-…), as `nvidia-smi -L` shows them.")


@pytest.mark.parametrize("limit", ["2", "GPU-33333333"])
def test_a_gpu_that_is_not_here_is_refused(
    limit: str, two_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VTRAIN_ACCELERATORS", limit)
    with pytest.raises(ConfigError) as caught:
        offered()
    assert caught.value.message == f"VTRAIN_ACCELERATORS: this machine has no GPU {limit}."
    assert caught.value.hint == f"Its GPUs are: {FIRST}, {SECOND}."


def test_a_gpu_that_is_named_where_none_can_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("VTRAIN_ACCELERATORS", "0")
    with pytest.raises(ConfigError) as caught:
        offered()
    assert caught.value.hint == "Its GPUs are: none that nvidia-smi lists."


def test_a_tool_that_never_answers_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offer, "TOOL_SECONDS", 0.2)
    stand_in(tmp_path, monkeypatch, "exec sleep 600")
    assert find_devices() is None


def test_the_tool_does_not_read_the_input_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, "cat")
    reader, writer = os.pipe()
    os.write(writer, TABLE.encode())
    os.close(writer)
    before = os.dup(0)
    os.dup2(reader, 0)
    try:
        assert find_devices() == ()
        assert os.read(reader, 9) == TABLE[:9].encode()
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reader)


def test_a_row_has_exactly_four_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "printf '0, GPU-1, A\n1, GPU-2, A, B\n2, GPU-3, A, B, C\n'")
    assert [device.uuid for device in find_devices() or ()] == ["GPU-2"]


def test_indexes_are_ordered_as_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "printf '10, GPU-b, A, B\n9, GPU-a, A, B\n'")
    assert offered() == ("GPU-a", "GPU-b")


def test_a_list_may_stand_in_the_project_file(
    two_gpus: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.vtrain]\naccelerators = [1, 0]\n")
    monkeypatch.chdir(tmp_path)
    assert offered() == (SECOND, FIRST)
    (tmp_path / "pyproject.toml").write_text("[tool.vtrain]\naccelerators = 0\n")
    assert offered() == (FIRST,)


def test_the_use_of_gpus_that_tell_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = f"0, {FIRST}, 37, 512, 23034\n1, {SECOND}, [N/A], 0, 23034\n2, GPU-3, 0, 4, 16384\n3, GPU-4, 1\n"
    stand_in(tmp_path, monkeypatch, f"echo \"$@\" > {tmp_path}/asked\ncat <<'END'\n{rows}END")
    assert device_uses() == (
        DeviceUse(index="0", uuid=FIRST, percent=37.0, memory_mib=512.0, memory_total_mib=23034.0),
        DeviceUse(index="2", uuid="GPU-3", percent=0.0, memory_mib=4.0, memory_total_mib=16384.0),
    )
    assert (tmp_path / "asked").read_text().split() == [
        "--query-gpu=index,uuid,utilization.gpu,memory.used,memory.total",
        "--format=csv,noheader,nounits",
    ]


def test_without_the_tool_no_use_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert device_uses() == ()
