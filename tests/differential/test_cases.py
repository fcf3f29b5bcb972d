"""Every recorded run of gcloud that packages nothing, played again with vtrain."""

from __future__ import annotations

from pathlib import Path

import pytest
from differential.intended import DIFFERENCES, MOST
from differential.judge import deviations, differences
from differential.runner import Case, all_cases, cases_of, play

pytest.importorskip("google.cloud.aiplatform_v1.services", reason="needs the extra vertex")

PLAYED = [case for case in cases_of(packaging=False) if not case.is_interactive]
UNKNOWN = [
    case for case in PLAYED if case.id in DIFFERENCES and "--allow-unknown" in DIFFERENCES[case.id].reason
]


@pytest.mark.child
@pytest.mark.parametrize("case", PLAYED, ids=lambda case: case.id)
def test_a_line_does_what_it_does_with_gcloud(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    intended = DIFFERENCES.get(case.id)
    outcome = play(case, folder, monkeypatch, answers=intended and intended.answers)
    found = differences(case, outcome)
    if intended is not None:
        assert found, f"{case.id} does what gcloud does: take it off the list."
        assert not deviations(intended, outcome)
    else:
        assert not found, "\n".join([*found, outcome.stderr])


@pytest.mark.parametrize("case", UNKNOWN, ids=lambda case: case.id)
def test_unknown_fields_are_sent_as_gcloud_sends_them_where_that_is_asked_for(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = play(case, tmp_path, monkeypatch, extra=("--allow-unknown-fields",))
    assert not differences(case, outcome), outcome.stderr


def test_the_list_of_differences_is_short_and_names_recorded_runs() -> None:
    assert len(DIFFERENCES) <= MOST
    assert DIFFERENCES.keys() <= {case.id for case in all_cases()}
