"""Masks in texts of ten megabytes: each is read a bounded number of times, whatever it holds.

A pattern that reads a text again from each of its characters would take days, and meets the time limit here.
"""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest

from vtrain.messages.secrets import MASK, masked_document, masked_text, masked_words

pytestmark = pytest.mark.timeout(120)
SIZE = 10_000_000
BASE64 = base64.b64encode(random.Random(1).randbytes(SIZE * 3 // 4)).decode().rstrip("=")
HARMLESS = {
    "base64": BASE64,
    "padded": BASE64 + "==",
    "base64 for URLs": BASE64.replace("+", "-").replace("/", "_"),
    "one letter": "a" * SIZE,
    "dashes": "-" * SIZE,
    "words": "Key" * (SIZE // 3),
    "an open authority": "a://" + "b:" * (SIZE // 2),
    "an open quotation": 'x TOKEN=$(A) A="' + BASE64,
}
MILLION = SIZE // 10
HOSTILE = {
    "assignments": ("x" + " TOKEN=a" * (MILLION // 8), "x" + " TOKEN=***" * (MILLION // 8)),
    "quotations": ("x" + " TOKEN='a'b\"c d\"" * (MILLION // 16), "x" + " TOKEN=***" * (MILLION // 16)),
    "many quotations": ("x TOKEN=" + "'a'\"b\"" * (MILLION // 6), "x TOKEN=***"),
    "different secrets": (
        "x" + "".join(f" TOKEN={number:07}" for number in range(MILLION // 14)),
        "x" + " TOKEN=***" * (MILLION // 14),
    ),
    "assignments of assignments": ("x " + "TOKEN=" * (SIZE // 6), "x TOKEN=***"),
    "logins": ("a://u:" + "@" * SIZE + "h", "a://u:***@h"),
}


@pytest.mark.parametrize("shape", HARMLESS)
def test_what_holds_no_secret_is_shown_as_it_is(shape: str) -> None:
    text = HARMLESS[shape]
    assert masked_words((text,)) == (text,)
    job: dict[str, Any] = {"args": [f"--data={text}"], "env": [{"name": "A", "value": text}]}
    assert masked_document(job) is job


@pytest.mark.parametrize("shape", HOSTILE)
def test_what_holds_secrets_is_masked(shape: str) -> None:
    text, expected = HOSTILE[shape]
    (shown,) = masked_words((text,))
    assert shown[:200] == expected[:200] and len(shown) == len(expected)


def test_a_job_of_large_texts() -> None:
    env = [{"name": "A_TOKEN", "value": "hunter22"}, {"name": "A", "value": BASE64}]
    job = {"args": [BASE64, f"--token={BASE64}", "hunter22"], "env": env, "error": {"message": BASE64}}
    masked = masked_document(job)
    assert masked["args"] == [MASK, f"--token={MASK}", MASK]
    assert [variable["value"] for variable in masked["env"]] == [MASK, MASK]
    assert masked_text(f"{BASE64} {'a' * SIZE} a://u:p@h", (f"--token={BASE64}",), {}) == (
        f"{MASK} {'a' * SIZE} a://u:{MASK}@h"
    )


def test_ten_thousand_secrets_in_a_text() -> None:
    words = [f"--token=secret-{number}" for number in range(10_000)]
    assert masked_text("secret-77 " + BASE64, words, {}) == MASK
