"""The end of the process that serves a job's Cloud Storage."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from vtrain.backends import job_storage
from vtrain.backends.job_storage import stop_serving
from vtrain.runtime.folder import JobFolder
from vtrain.runtime.locks import hold_lock


def test_a_job_without_a_service_waits_for_nothing(tmp_path: Path) -> None:
    begin = time.monotonic()
    stop_serving(JobFolder(tmp_path))
    assert time.monotonic() - begin < job_storage.STOP_SECONDS


def test_a_service_that_does_not_tell_its_number_holds_up_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trainer of the same user may have written over the lock."""
    monkeypatch.setattr(job_storage, "STOP_SECONDS", 0.1)
    monkeypatch.setattr(job_storage, "KILL_SECONDS", 0.1)
    (tmp_path / "storage").mkdir()
    lock = hold_lock(tmp_path / "storage" / "lock")
    assert lock is not None
    try:
        with pytest.raises(TimeoutError, match="does not end"):
            stop_serving(JobFolder(tmp_path))
    finally:
        os.close(lock)
