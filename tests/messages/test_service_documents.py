"""Unknown fields, apart from the known ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from lib.job_strategies import messages

from vtrain.messages.codec import to_document
from vtrain.messages.custom_job import CustomJobSpec
from vtrain.messages.service_documents import split_unknown


@pytest.mark.parametrize(
    ("document", "known", "unknown"),
    [
        ({"network": "n", "new": 1}, {"network": "n"}, {"new": 1}),
        ({"scheduling": {"new": [1]}}, {"scheduling": {}}, {"scheduling": {"new": [1]}}),
        (
            {"workerPoolSpecs": [{"replicaCount": 1}, {"new": 2}]},
            {"workerPoolSpecs": [{"replicaCount": 1}, {}]},
            {"workerPoolSpecs": [{}, {"new": 2}]},
        ),
        ({"workerPoolSpecs": {"new": 2}}, {"workerPoolSpecs": {}}, {"workerPoolSpecs": [{"new": 2}]}),
        ({"workerPoolSpecs": "text"}, {"workerPoolSpecs": "text"}, {}),
    ],
)
def test_unknown_fields_keep_their_place(
    document: dict[str, Any], known: dict[str, Any], unknown: dict[str, Any]
) -> None:
    assert split_unknown(CustomJobSpec, document) == (known, unknown)


@given(messages(CustomJobSpec))
def test_a_message_has_none(spec: CustomJobSpec) -> None:
    document = to_document(spec)
    assert split_unknown(CustomJobSpec, document) == (document, {})
