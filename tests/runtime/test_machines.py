"""Machine types, and what of them this machine gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrain.runtime.machines import GIB, HostResources, limits, machine

LAPTOP = HostResources(cpus=8, memory_bytes=32 * GIB)
SERVER = HostResources(cpus=512, memory_bytes=8192 * GIB)


@pytest.mark.parametrize(
    ("machine_type", "cpus", "memory_gib"),
    [
        ("n1-standard-4", 4, 15),
        ("n1-highmem-2", 2, 13),
        ("n1-highcpu-16", 16, 14.4),
        ("n2-highcpu-80", 80, 80),
        ("e2-highmem-16", 16, 128),
        ("c2-standard-60", 60, 240),
        ("a2-ultragpu-8g", 96, 1360),
        ("g2-standard-12", 12, 48),
        ("g4-standard-48", 48, 180),
        ("ct6e-standard-1t", 44, 48),
    ],
)
def test_machines_are_as_documented(machine_type: str, cpus: int, memory_gib: float) -> None:
    found = machine(machine_type)
    assert found is not None
    assert (found.cpus, found.memory_gib) == (cpus, memory_gib)


@pytest.mark.parametrize("machine_type", ["n1-standard-2", "n1", "N1-STANDARD-4", "cloud-tpu", ""])
def test_what_training_does_not_have_is_no_machine(machine_type: str) -> None:
    assert machine(machine_type) is None


def test_a_machine_that_fits_is_given_in_full() -> None:
    allowed = limits("n1-standard-4", LAPTOP)
    assert (allowed.cpus, allowed.memory_bytes, allowed.sentence) == (4, 15 * GIB, "")


def test_a_larger_machine_is_clamped_in_one_sentence() -> None:
    allowed = limits("n1-standard-32", HostResources(cpus=2, memory_bytes=24 * GIB))
    assert (allowed.cpus, allowed.memory_bytes) == (2, int(24 * GIB * 0.95))
    assert allowed.sentence == (
        "n1-standard-32 has 32 CPUs and 120 GB; this machine gives 2 CPUs and 22.8 GB."
    )


def test_large_memory_is_written_in_full() -> None:
    sentence = limits("a3-ultragpu-8g", HostResources(cpus=1, memory_bytes=2048 * GIB)).sentence
    assert "224 CPUs and 2952 GB" in sentence
    assert sentence.endswith("this machine gives 1 CPU and 1945.6 GB.")


def test_an_unknown_type_sets_no_limits_and_says_so() -> None:
    allowed = limits("z9-standard-4", LAPTOP)
    assert (allowed.cpus, allowed.memory_bytes) == (0, 0)
    assert allowed.sentence == "the machine type z9-standard-4 is not known here; it sets no limits."


def test_no_type_sets_no_limits_and_says_nothing() -> None:
    assert limits("", LAPTOP) == limits("", SERVER)
    assert (limits("", LAPTOP).cpus, limits("", LAPTOP).sentence) == (0, "")


def test_own_limits_take_the_place_of_the_types() -> None:
    allowed = limits("n1-standard-32", LAPTOP, cpus=1.5, memory_bytes=GIB)
    assert (allowed.cpus, allowed.memory_bytes, allowed.sentence) == (1.5, GIB, "")
    assert limits("z9", LAPTOP, cpus=1, memory_bytes=GIB).sentence == ""
    assert limits("n1-standard-4", LAPTOP, cpus=0.5).memory_bytes == 15 * GIB


def test_own_limits_are_clamped_too() -> None:
    allowed = limits("", LAPTOP, cpus=64)
    assert (allowed.cpus, allowed.memory_bytes) == (8, 0)
    assert allowed.sentence == "64 CPUs are asked for; this machine gives 8 CPUs."


def test_less_than_a_gigabyte_is_written_in_megabytes() -> None:
    sentence = limits("", LAPTOP, cpus=9, memory_bytes=64 * 2**20).sentence
    assert sentence == "9 CPUs and 64 MB are asked for; this machine gives 8 CPUs and 64 MB."


@given(
    st.sampled_from(["", "n1-standard-4", "a2-megagpu-16g", "m1-ultramem-160", "z9"]),
    st.builds(HostResources, cpus=st.integers(1, 256), memory_bytes=st.integers(GIB, 4096 * GIB)),
    st.floats(0, 512),
    st.integers(0, 4096 * GIB),
)
def test_no_limit_is_above_the_machine(
    machine_type: str, host: HostResources, cpus: float, memory_bytes: int
) -> None:
    allowed = limits(machine_type, host, cpus=cpus, memory_bytes=memory_bytes)
    assert 0 <= allowed.cpus <= host.cpus
    assert 0 <= allowed.memory_bytes <= host.memory_bytes
    assert "\n" not in allowed.sentence
