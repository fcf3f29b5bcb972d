"""The library imported in part: the client works, and whatever is imported later finds the same classes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

BEFORE = "import sys; from vtrain.backends.vertex.deferred import load_service\n"


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-W", "ignore", "-c", BEFORE + textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_only_the_service_is_imported() -> None:
    run("""
        load_service("job_service")
        names = [m for m in sys.modules if m.startswith("google.cloud.aiplatform_v1.services.")]
        assert all(m.startswith("google.cloud.aiplatform_v1.services.job_service") for m in names), names
    """)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize("service", ["job_service", "pipeline_service", "persistent_resource_service"])
def test_the_service_is_there(version: str, service: str) -> None:
    run(f"""
        module = load_service({service!r}, {version!r})
        assert module.__name__ == "google.cloud.aiplatform_{version}.services.{service}"
        assert load_service({service!r}, {version!r}) is module
    """)


def test_a_plain_import_later_finds_the_same_classes() -> None:
    run("""
        service = load_service("job_service")
        load_service("persistent_resource_service")
        from google.cloud import aiplatform_v1
        from google.cloud.aiplatform_v1.types import custom_job
        assert aiplatform_v1.CustomJob is custom_job.CustomJob
        assert aiplatform_v1.types.CustomJob is custom_job.CustomJob
        assert aiplatform_v1.JobServiceClient is service.JobServiceClient
        scope = {}
        exec("from google.cloud.aiplatform_v1 import *", scope)
        assert scope["CustomJob"] is custom_job.CustomJob
        assert scope["ModelServiceClient"] is aiplatform_v1.ModelServiceClient
        assert not hasattr(aiplatform_v1, "NoSuchName")
    """)


def test_the_whole_sdk_works_later() -> None:
    run("""
        service = load_service("job_service")
        from google.cloud import aiplatform
        from google.cloud.aiplatform_v1.types import custom_job
        assert aiplatform.gapic.JobServiceClient is service.JobServiceClient
        assert aiplatform.CustomJob is not None
        import google.cloud.aiplatform_v1beta1 as beta
        assert beta.CustomJob is not custom_job.CustomJob
    """)


def test_after_the_whole_sdk_nothing_is_deferred() -> None:
    run("""
        from google.cloud import aiplatform_v1
        assert load_service("job_service").JobServiceClient is aiplatform_v1.JobServiceClient
    """)


def test_a_library_laid_out_otherwise_is_imported_whole(tmp_path: Path) -> None:
    run(f"""
        import os
        import google.cloud
        google.cloud.__path__.append({str(tmp_path)!r})
        package = os.path.join({str(tmp_path)!r}, "aiplatform_v9")
        os.makedirs(os.path.join(package, "services"))
        open(os.path.join(package, "__init__.py"), "w").write("MARK = 1\\n")
        open(os.path.join(package, "services", "__init__.py"), "w").write("")
        open(os.path.join(package, "services", "job_service.py"), "w").write(
            "import sys\\n"
            "mark = sys.modules['google.cloud.aiplatform_v9'].__dict__.get('MARK')\\n"
            "if mark is None: raise ImportError('the package comes first')\\n"
        )
        assert load_service("job_service", "v9").mark == 1
    """)


def test_without_the_library_the_way_to_get_it_is_told() -> None:
    run("""
        import importlib.util, pathlib
        import vtrain.backends.vertex.backend as backend
        from vtrain.backends import BackendSettings, open_backend
        from vtrain.errors import UnavailableError
        class Hidden:
            def find_spec(self, name, path=None, target=None):
                if name.startswith("google"):
                    raise ModuleNotFoundError(name)
        sys.meta_path.insert(0, Hidden())
        try:
            open_backend("vertex", BackendSettings(home=pathlib.Path("."), project="p", region="us-central1"))
        except UnavailableError as error:
            assert "vtrain[vertex]" in error.hint and "--backend=local" in error.hint
        else:
            raise AssertionError("no error")
    """)


def test_planning_imports_nothing_of_google() -> None:
    run("""
        import pathlib
        from vtrain.backends import BackendSettings, open_backend
        from vtrain.messages.custom_job import CustomJob
        b = open_backend("vertex", BackendSettings(home=pathlib.Path("."), project="p", region="us-central1"))
        b.plan(CustomJob(display_name="x"))
        assert not [m for m in sys.modules if m.startswith("google.cloud.aiplatform") or m == "requests"]
    """)
