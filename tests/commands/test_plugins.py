"""Backends of other distributions: what they say about themselves decides how a command treats them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from vtrain.backends import registry

SITE = '''
from vtrain.backends.interface import Backend, TrainerForm
from vtrain.backends.health import Check
from vtrain.errors import ConfigError
from vtrain.testing.memory import MemoryBackend

SEEN = []


class Slurm(Backend):
    """Says nothing about itself but its name."""

    name = "slurm"

    def open(self, settings):
        SEEN.append(settings)
        return MemoryBackend(project=settings.project, region=settings.region)


class Cluster(Slurm):
    name = "cluster"
    is_local = False


class Pods(Cluster):
    name = "pods"
    trainer_form = image_form = TrainerForm.PUSHED_IMAGE


class Alias(Cluster):
    """Takes the name of another."""


def open_other(settings):
    """No Backend: how a function was registered in protocol 1."""


class Refusing(Slurm):
    name = "refusing"

    def open(self, settings):
        raise ConfigError("The cluster is not configured.", hint="Run cluster-setup.")


class Failing(Slurm):
    name = "failing"

    def open(self, settings):
        raise ZeroDivisionError("a fault of the plug-in")


class Opening(Slurm):
    """Opens nothing."""

    name = "opening"

    def open(self, settings):
        return None


class Faulty(Slurm):
    """Fails wherever all backends are asked."""

    name = "faulty"

    def checks(self, line):
        yield Check(name="queue", probe=lambda: 1 / 0)
        raise NotImplementedError

    def garbage(self, search):
        raise KeyError("garbage")

    def usage(self, home):
        raise KeyError("usage")


class Probing(Slurm):
    name = "probing"

    def checks(self, line):
        return [Check(name="queue", probe=lambda: 1 / 0)]


class Docker(Slurm):
    """Takes the name of a backend that vtrain has."""

    name = "docker"
'''
NAMES = (
    "slurm=Slurm cluster=Cluster pods=Pods alias=Alias other=open_other "
    "refusing=Refusing failing=Failing "
    "opening=Opening faulty=Faulty probing=Probing docker=Docker"
)


def register(folder: Path, distribution: str, entries: list[str]) -> None:
    """Install a distribution that registers these backends."""
    info = folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(["[vtrain.backends]", *entries, ""]))


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """An installed distribution with these backends, and a configured project."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "cluster_plugin.py").write_text(SITE)
    (folder / "exiting_plugin.py").write_text("raise SystemExit('not on this machine')\n")
    register(folder, "cluster-plugin", [name.replace("=", "=cluster_plugin:") for name in NAMES.split()])
    register(folder, "other-plugin", ["slurm2=cluster_plugin:Slurm", "twice=cluster_plugin:Slurm"])
    register(folder, "third-plugin", ["twice=cluster_plugin:Pods", "exiting=exiting_plugin:Exiting"])
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("CLOUDSDK_CORE_PROJECT", "demo")
    monkeypatch.setenv("CLOUDSDK_AI_REGION", "europe-west4")
    import cluster_plugin

    yield cluster_plugin
    del sys.modules["cluster_plugin"]


@pytest.fixture
def create(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "task.py").write_text("print(1)\n")
    folder = (f"--local-package-path={tmp_path}", "--script=task.py")
    return ("custom-jobs", "create", "--display-name=a", "--dry-run", *folder)


def test_a_plugin_that_says_nothing_is_local(
    vtrain: Any, site: ModuleType, create: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hunter2-secret")
    ended = vtrain(*create, "--backend=slurm", "--env", "HF_TOKEN")
    assert ended.code == 0, ended.err
    assert "gcr.io" not in ended.err and "push" not in ended.err and "looks like a secret" not in ended.err
    assert "Would package" in ended.err and "hunter2" not in ended.out + ended.err
    assert {(seen.project, seen.region) for seen in site.SEEN} == {("local", "europe-west4")}
    run = vtrain("custom-jobs", "local-run", *create[2:], "--backend=slurm")
    assert run.code == 0 and "Backend: slurm (--backend)" in run.err, run.err
    monkeypatch.setenv("VTRAIN_BACKEND", "slurm")
    assert "Backend: slurm (VTRAIN_BACKEND)" in vtrain("custom-jobs", "local-run", *create[2:]).err


def test_a_plugin_of_a_service_gets_the_project(
    vtrain: Any, site: ModuleType, create: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIN", "1")
    image = "--executor-image-uri=python:3"
    ended = vtrain(*create, image, "--backend=cluster", "--staging-bucket=gs://bucket", "--env=A_TOKEN=x")
    assert ended.code == 0, ended.err
    assert "WARNING: A_TOKEN looks like a secret" in ended.err and "Would push" not in ended.err
    assert {(seen.project, seen.region) for seen in site.SEEN} == {("demo", "europe-west4")}
    refused = vtrain(*create, image, "--backend=cluster", "--staging-bucket=gs://bucket", "--env=PLAIN")
    assert refused.code == 1 and "taken on local backends only" in refused.err
    monkeypatch.delenv("CLOUDSDK_CORE_PROJECT")
    assert "No project is set." in vtrain("custom-jobs", "list", "--backend=cluster").err


def test_a_plugin_that_takes_images(vtrain: Any, site: ModuleType, create: tuple[str, ...]) -> None:
    ended = vtrain(*create, "--executor-image-uri=python:3", "--backend=pods")
    assert ended.err == "Backend: pods (--backend)\nERROR: The backend in memory runs no containers.\n"


@pytest.mark.parametrize("backend", ["vertex", "cluster"])
def test_local_run_on_a_service(
    vtrain: Any, site: ModuleType, create: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    ended = vtrain("custom-jobs", "local-run", *create[2:], f"--backend={backend}", "--project=p")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == (
        f"ERROR: local-run runs a trainer on this machine, and --backend={backend} does not.\n"
        f"  Leave --backend out, or take: vtrain custom-jobs create --backend={backend} --stream-logs\n"
    )
    monkeypatch.setenv("VTRAIN_BACKEND", backend)  # a usual backend is none for local-run
    again = vtrain("custom-jobs", "local-run", *create[2:])
    assert again.code == 0 and "Backend: process (local-run is always local" in again.err, again.err


def test_a_plugin_that_cannot_be_used_says_why(vtrain: Any, site: ModuleType) -> None:
    for backend, words in (
        ("alias", "The backend plug-in 'alias' calls itself 'cluster'."),
        ("other", "The backend plug-in 'other' registers cluster_plugin:open_other, which is no Backend."),
        ("refusing", "The cluster is not configured.\n  Run cluster-setup."),
        ("failing", "The backend plug-in 'failing' cannot be opened: a fault of the plug-in."),
        ("opening", "The backend plug-in 'opening' opens None, which is no JobBackend."),
        ("exiting", "The backend plug-in 'exiting' cannot be loaded: not on this machine."),
        ("twice", "Several plug-ins register the backend 'twice': other-plugin, third-plugin.\n  Uninstall"),
    ):
        ended = vtrain("custom-jobs", "list", f"--backend={backend}")
        assert (ended.code, ended.out) == (1, "")
        assert f"ERROR: {words}" in ended.err


def test_a_plugin_that_fails_is_no_reason_to_leave_the_others_out(vtrain: Any, site: ModuleType) -> None:
    examined = vtrain("doctor", "--format=json", "--backend=process")
    lines = {(line["subject"], line["check"]): line for line in json.loads(examined.out)}
    assert lines["process", "uv"]["status"] == "ok"
    assert lines["faulty", "plug-in"]["text"] == "The backend plug-in 'faulty' failed: NotImplementedError."
    assert lines["probing", "queue"]["status"] == "failed"
    assert lines["probing", "queue"]["text"] == "ZeroDivisionError: division by zero."
    assert len([subject for subject, check in lines if (subject, check) == ("docker", "engine")]) <= 1
    swept = vtrain("gc", "--dry-run", "--kind=environment")
    assert swept.code == 0, swept.err
    swept = vtrain("gc", "--dry-run")
    assert swept.code == 0, swept.err
    assert "The backend plug-in 'faulty' failed: 'garbage'." in swept.err


def test_the_names_of_vtrain_s_own_backends_are_taken(site: ModuleType) -> None:
    names = [backend.name for backend in registry.every_backend()]
    assert names.count("docker") == 1
    assert "slurm" in names and "twice" not in names and "exiting" not in names
