"""Short names of jobs in messages on a terminal, from `submit` to `rm`."""

from __future__ import annotations

import re

from terminal.conftest import Start, Trainer


def test_a_job_is_called_by_a_few_digits_in_commands_that_work(start: Start, trainer: Trainer) -> None:
    submit = start("submit", trainer("hold()\n"), "--display-name=held")
    assert submit.end() == 0
    found = re.search(r"CustomJob \[(\d{6,8})\] is submitted", submit.transcript)
    assert found is not None, submit.transcript
    number = found[1]
    assert f"\n$ vtrain show {number}\n$ vtrain logs {number} -f" in submit.transcript
    stop = start("stop", number)
    assert stop.end() == 0
    assert f"CustomJob [{number}]" in stop.transcript
    assert f"$ vtrain logs {number} -f" in stop.transcript
    assert "projects/" not in submit.transcript + stop.transcript


def test_a_model_is_called_by_its_id(start: Start) -> None:
    line = ("models", "upload", "--display-name=iris", "--container-image-uri=i", "--backend=process")
    upload = start(*line, "--model-id=iris-1")
    assert upload.end() == 0
    assert "Uploaded Model [iris-1], version 1." in upload.transcript
    assert "$ vtrain models describe iris-1@1" in upload.transcript and "projects/" not in upload.transcript
