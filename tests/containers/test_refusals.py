"""The words of engines and registries, old and new, and the sentences they become."""

from __future__ import annotations

import pytest

from vtrain.containers.engine import FULL_DISK_HINT
from vtrain.containers.images import explain_program, explain_refusal, registry_of

ACCESS = "it does not exist, or you have no access to it"


@pytest.mark.parametrize(
    ("name", "words", "sentence", "hint"),
    [
        (
            "nope:1",
            "pull access denied for nope, repository does not exist or may require 'docker login': denied: x",
            ACCESS,
            "docker login.",
        ),
        (
            "ghcr.io/a/b:1",
            'Head "https://ghcr.io/v2/a/b/manifests/1": unauthorized',
            ACCESS,
            "docker login ghcr.io",
        ),
        (
            "europe-docker.pkg.dev/p/r/i:1",
            'denied: Permission "artifactregistry.repositories.downloadArtifacts" denied on resource',
            ACCESS,
            "gcloud auth configure-docker europe-docker.pkg.dev",
        ),
        (
            "gcr.io/p/i",
            "unauthorized: You don't have the needed permissions",
            ACCESS,
            "configure-docker gcr.io",
        ),
        (
            "a:9",
            "manifest for a:9 not found: manifest unknown: manifest unknown",
            "docker.io does not have it",
            "tag",
        ),
        (
            "h:5000/a:1",
            'failed to resolve reference "h:5000/a:1": h:5000/a:1: not found',
            "h:5000 does not have it",
            "tag",
        ),
        (
            "a:1",
            "no matching manifest for linux/arm64/v8 in the manifest list entries",
            "none for this platform",
            "--platform",
        ),
        (
            "a:1",
            'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host',
            "does not reach docker.io",
            "network",
        ),
        (
            "h:1/a",
            'Get "https://h:1/v2/": x509: certificate signed by unknown authority',
            "does not reach h:1",
            "proxy",
        ),
        (
            "a:1",
            "failed to register layer: Error processing tar file: write /x: no space left on device",
            "no space left",
            FULL_DISK_HINT,
        ),
        (
            "A",
            "invalid reference format: repository name must be lowercase",
            "is not the name of an image",
            "lower",
        ),
        (
            "a:1",
            "toomanyrequests: You have reached your pull rate limit.",
            "a:1 cannot be pulled: toomany",
            "",
        ),
    ],
)
def test_words_become_a_sentence(name: str, words: str, sentence: str, hint: str) -> None:
    error = explain_refusal(words, name, "pulled")
    assert sentence in error.message
    assert "\n" not in error.message
    assert error.message.endswith(".")
    assert hint in error.hint


def test_the_registry_is_the_first_part_only_where_it_is_a_host() -> None:
    assert registry_of("python:3.11") == "docker.io"
    assert registry_of("team/python") == "docker.io"
    assert registry_of("localhost/python") == "localhost"
    assert registry_of("127.0.0.1:5000/python") == "127.0.0.1:5000"
    assert registry_of("gcr.io/p/i") == "gcr.io"


@pytest.mark.parametrize(
    ("line", "code", "program"),
    [
        ("/bin/sh: 1: pip: not found", "127", "pip"),
        ("/bin/sh: pip: not found", "127", "pip"),
        ("/bin/bash: line 1: pip: command not found", "127", "pip"),
        ("/usr/bin/env: 'python3': No such file or directory", "127", "python3"),
        ("/usr/bin/python3: No module named pip", "1", "pip"),
        ('runc: exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown', "", "/bin/sh"),
    ],
)
def test_a_missing_program_is_named(line: str, code: str, program: str) -> None:
    found = explain_program(("before", line), code, "RUN --mount=type=cache,id=a --network=none x --y z")
    assert found is not None
    assert found.message == f"it has no {program}, which RUN x --y z runs."


@pytest.mark.parametrize(
    "line", ["/bin/sh: 1: pip: not found", "the key was not found", "No module named pipes"]
)
def test_other_failures_are_not_taken_for_a_missing_program(line: str) -> None:
    assert explain_program((line,), "1", "RUN x") is None
