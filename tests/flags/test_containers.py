"""The flags of containers: Docker's grammar, refused with the flag's name before anything happens."""

from __future__ import annotations

import string
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrain.backends import Mount, ReplicaOptions, Ulimit
from vtrain.errors import UsageError, VtrainError
from vtrain.flags.containers import (
    ULIMITS,
    container_flags,
    platform_name,
    read_host,
    read_mount,
    read_ulimit,
    replica_options,
)
from vtrain.flags.grammar import size_in_bytes
from vtrain.flags.job_options import ContainerFlags, GpuFlags
from vtrain.sizes import LARGEST

NAME = st.text(string.ascii_letters + string.digits + "-_.", min_size=1, max_size=12)
PATH = st.lists(NAME.filter(lambda name: name.strip(".")), min_size=1, max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)


def refuses(parse: Callable[[str], object], text: str) -> VtrainError | None:
    """The error of a parser that takes a text or refuses it, and does nothing else."""
    try:
        parse(text)
    except VtrainError as error:
        return error
    return None


def test_without_flags_all_is_docker_s_own() -> None:
    assert replica_options(ContainerFlags(), GpuFlags()) == ReplicaOptions()
    assert container_flags(ContainerFlags(), GpuFlags()) == ()


def test_every_flag_has_its_place(tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text("{}")
    flags = ContainerFlags(
        pull="always",
        platform="linux/arm64",
        memory="2g",
        cpus="1.5",
        shm_size="64m",
        mount=[f"type=bind,source={tmp_path},target=/data,readonly"],
        user="1000:1000",
        add_host=["db:10.0.0.1"],
        cap_add=["sys_ptrace", "CAP_NET_ADMIN", "ALL"],
        ulimit=["nofile=1024"],
        require_accelerators=True,
    )
    gpu = GpuFlags(gpu=True, service_account_key_file=str(key))
    assert replica_options(flags, gpu) == ReplicaOptions(
        pull="always",
        platform="linux/arm64",
        memory_bytes=2 * 2**30,
        cpus=1.5,
        shm_size=64 * 2**20,
        mounts=(Mount(type="bind", source=str(tmp_path), target="/data", read_only=True),),
        user="1000:1000",
        add_hosts=("db:10.0.0.1",),
        cap_add=("SYS_PTRACE", "NET_ADMIN", "ALL"),
        ulimits=(Ulimit(name="nofile", soft=1024, hard=1024),),
        gpus=True,
        require_accelerators=True,
        credentials_file=str(key),
    )


def test_given_flags_are_named_as_they_are_written() -> None:
    flags = ContainerFlags(shm_size="1g", mount=["x"], bake=True, require_accelerators=True)
    gpu = GpuFlags(gpu=True, output_image_uri="trainer", service_account_key_file="key.json")
    assert container_flags(flags) == ("--shm-size", "--mount", "--require-accelerators")
    assert container_flags(flags, gpu)[3:] == ("--gpu",)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("64m", 64 * 2**20),
        ("64M", 64 * 2**20),
        ("64mb", 64 * 2**20),
        ("64MiB", 64 * 2**20),
        ("1.5g", 3 * 2**29),
        ("2 gb", 2**31),
        ("512k", 2**19),
        ("1t", 2**40),
        ("7b", 7),
    ],
)
def test_sizes_as_docker_reads_them(text: str, size: int) -> None:
    assert size_in_bytes(text, "--shm-size") == size


@pytest.mark.parametrize(
    "text", ["0", "-1", "m", "1x", "1.m", "0.1b", "1e3", "٣m", "9" * 19 + "t", " 1", "1m "]
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match=r"--shm-size: .* is not a size") as caught:
        replica_options(ContainerFlags(shm_size=text))
    assert caught.value.exit_code == 2


@given(st.integers(1, LARGEST // 2**40), st.sampled_from(["", "b", "k", "m", "g", "t"]))
def test_a_whole_number_of_units_is_exact(number: int, unit: str) -> None:
    scale = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}[unit]
    assert size_in_bytes(f"{number}{unit}", "--memory") == number * scale
    assert size_in_bytes(f"{number}{unit.upper()}", "--memory") == number * scale


@given(st.text(max_size=20) | st.from_regex(r"[0-9.]{1,30} ?[bkmgtib]{0,3}", fullmatch=True))
def test_any_text_is_a_size_or_refused(text: str) -> None:
    error = refuses(lambda text: size_in_bytes(text, "--memory"), text)
    assert error is None or isinstance(error, UsageError)


@given(NAME.filter(lambda name: name[0] not in ".~"), PATH, st.booleans())
def test_a_volume_comes_back_as_it_was_written(source: str, target: str, read_only: bool) -> None:
    switch = ",readonly" if read_only else ""
    expected = Mount(type="volume", source=source, target=target, read_only=read_only)
    assert read_mount(f"type=volume,source={source},target={target}{switch}") == expected
    assert read_mount(f"src={source},dst={target},ro={str(read_only).lower()}") == expected


@given(
    st.text(max_size=40)
    | st.lists(st.sampled_from(["type=bind", "ro", "src=~x", "target=/a", '"', ","])).map(",".join)
)
def test_any_text_is_a_mount_or_refused(text: str) -> None:
    error = refuses(read_mount, text)
    assert error is None or error.message.startswith("--mount: ")


def test_the_source_of_a_bind_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "data").mkdir()
    for source in ("data", "./data", "~/data", str(tmp_path / "data")):
        mount = read_mount(f"type=bind,source={source},destination=/data,readonly=true")
        assert mount == Mount(type="bind", source=str(tmp_path / "data"), target="/data", read_only=True)


def test_a_quoted_item_may_hold_a_comma(tmp_path: Path) -> None:
    folder = tmp_path / "a,b"
    folder.mkdir()
    assert read_mount(f'type=bind,"source={folder}",target=/data').source == str(folder)


def test_memory_as_a_mount() -> None:
    mount = read_mount("type=tmpfs,target=/scratch,tmpfs-size=64m")
    assert mount == Mount(type="tmpfs", target="/scratch", tmpfs_size=64 * 2**20)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("type=bind,source=/nowhere,target=/data", "/nowhere does not exist"),
        ("type=bind,source=~nobody-here/x,target=/data", "does not exist"),
        ("type=bind,target=/data", "type=bind needs source"),
        ("type=volume,target=/data", "type=volume needs source"),
        ("source=/tmp,target=/data", "/tmp is no name of a volume"),
        ("type=nfs,source=a,target=/data", "there is no type 'nfs'"),
        ("source=a,target=data", "target=data is no absolute path"),
        ("source=a,target=/", "target=/ is no absolute path below /"),
        ("source=a", "target= is no absolute path"),
        ("source=a,target", "expected target=VALUE"),
        ("source=a,target=/b,readonly=maybe", "readonly=maybe is neither true nor false"),
        ("source=a,target=/b,bind-propagation=rslave", "there is no key 'bind-propagation'"),
        ("source=a,target=/b,tmpfs-size=1m", "tmpfs-size goes with type=tmpfs only"),
        ("type=tmpfs,source=a,target=/b", "type=tmpfs has no source"),
        ("type=tmpfs,target=/b,tmpfs-size=much", "--mount: tmpfs-size: 'much' is not a size"),
        ("", "type=volume needs source"),
        ("/data:/data", "there is no key '/data:/data'"),
        ('"source=a', "does not parse"),
    ],
)
def test_mounts_that_docker_would_refuse(text: str, words: str) -> None:
    error = refuses(read_mount, text)
    assert error is not None
    assert error.message.startswith("--mount: ")
    assert words in error.message


@given(st.sampled_from(sorted(ULIMITS)), st.integers(0, 10**18 - 1), st.integers(0, 10**18 - 1))
def test_limits_come_back_as_they_were_written(name: str, one: int, other: int) -> None:
    soft, hard = sorted((one, other))
    assert read_ulimit(f"{name}={soft}:{hard}") == Ulimit(name=name, soft=soft, hard=hard)
    assert read_ulimit(f"{name}={soft}") == Ulimit(name=name, soft=soft, hard=soft)
    assert read_ulimit(f"{name}={soft}:-1") == Ulimit(name=name, soft=soft, hard=-1)


def test_no_limit_at_all() -> None:
    assert read_ulimit("memlock=-1") == Ulimit(name="memlock", soft=-1, hard=-1)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("db:10.0.0.1", "db:10.0.0.1"),
        ("db=10.0.0.1", "db:10.0.0.1"),
        ("db:::1", "db:::1"),
        ("db=[2001:db8::1]", "db:2001:db8::1"),
        ("me:host-gateway", "me:host-gateway"),
    ],
)
def test_hosts(text: str, address: str) -> None:
    assert read_host(text) == address


@given(st.ip_addresses().map(str))
def test_every_address_of_a_host_passes(address: str) -> None:
    assert read_host(f"db:{address}") == read_host(f"db=[{address}]") == f"db:{address}"


@pytest.mark.parametrize("text", ["linux/amd64", "linux/arm64", "linux/arm/v7", "linux/x86_64"])
def test_platforms(text: str) -> None:
    assert platform_name(text) == text


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (ContainerFlags(pull="sometimes"), "--pull: expected missing, always or never, found 'sometimes'"),
        (ContainerFlags(platform="amd64"), "--platform: 'amd64' is not a platform"),
        (ContainerFlags(memory="lots"), "--memory: 'lots' is not a size"),
        (ContainerFlags(cpus="nan"), "--cpus: 'nan' is not a number of processors"),
        (ContainerFlags(cpus="0"), "--cpus: '0'"),
        (ContainerFlags(cpus="inf"), "--cpus: 'inf'"),
        (ContainerFlags(cpus="0.001"), "--cpus: '0.001' is too small; the least is 0.01"),
        (ContainerFlags(cpus=""), "--cpus: '' is not a number of processors"),
        (ContainerFlags(memory=""), "--memory: '' is not a size"),
        (ContainerFlags(shm_size=""), "--shm-size: '' is not a size"),
        (ContainerFlags(user=""), "--user: '' is not USER[:GROUP]"),
        (ContainerFlags(platform=""), "--platform: '' is not a platform"),
        (ContainerFlags(pull=""), "--pull: expected missing, always or never, found ''"),
        (ContainerFlags(user="me you"), "--user: 'me you' is not USER[:GROUP]"),
        (ContainerFlags(cap_add=["SYS-ADMIN"]), "--cap-add: there is no capability 'SYS-ADMIN'"),
        (ContainerFlags(add_host=["db"]), "--add-host: 'db' is not NAME:ADDRESS"),
        (ContainerFlags(add_host=["db:somewhere"]), "--add-host: 'somewhere' is not an IP address"),
        (ContainerFlags(ulimit=["nofile"]), "--ulimit: 'nofile' is not NAME=SOFT[:HARD]"),
        (ContainerFlags(ulimit=["files=1"]), "--ulimit: there is no limit 'files'"),
        (ContainerFlags(ulimit=["nofile=2:1"]), "the soft limit of 'nofile=2:1' is above the hard one"),
        (ContainerFlags(ulimit=["nofile=-1:1"]), "the soft limit of 'nofile=-1:1' is above the hard one"),
    ],
)
def test_what_does_not_parse_is_exit_2(flags: ContainerFlags, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        replica_options(flags)
    assert words in caught.value.message


def test_a_capability_that_is_written_otherwise_is_suggested() -> None:
    with pytest.raises(UsageError) as caught:
        replica_options(ContainerFlags(cap_add=["ptrace"]))
    assert caught.value.hint == "Did you mean SYS_PTRACE?"
