"""Which names stand for secrets, and what is masked."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrain.messages.secrets import (
    MASK,
    is_secret,
    masked_document,
    masked_replica,
    masked_words,
    names_secret,
    plain_secrets,
)

SECRET = (
    "WANDB_API_KEY HF_TOKEN hfToken AWS_SECRET_ACCESS_KEY DB_PASSWORD PGPASSWORD api_key apiKey APIKey "
    "OPENAI_KEY TOKEN PASSWORD SECRET SECRET_KEY_BASE GITHUB_TOKEN API_KEYS ACCESS_TOKENS TOKEN2 API_KEY_1 "
    "OPENAI_APIKEY client_secret db.password MY_CREDENTIALS PASSPHRASE NVIDIA_API_KEY DB_PASS MYSQL_PWD "
    "privateKey API_KEY_OPENAI --api-key --db-password"
).split()
HARMLESS = (
    "KEY KEYS MONKEY KEYBOARD HOTKEY TOKENIZER TOKENIZERS_PARALLELISM TOKENS NUM_TOKENS MAX_TOKENS "
    "MAX_NEW_TOKENS PAD_TOKEN EOS_TOKEN_ID TOKEN_TYPE_IDS TOKEN_DIM MAX_TOKEN_LENGTH SORT_KEY PRIMARY_KEY "
    "PUBLIC_KEY KMS_KEY KEY_SIZE API_KEY_FILE PASSWORD_FILE SECRET_NAME PWD OLDPWD PASS COMPASS SECRETARY "
    "BATCH_SIZE SSH_AUTH_SOCK GOOGLE_APPLICATION_CREDENTIALS --kms-key --epochs"
).split()
VALUE = st.text(string.ascii_letters + string.digits + "\"'\\ü/+=&", min_size=8, max_size=30).filter(
    lambda text: text.strip(".") == text and "***" not in text
)


@pytest.mark.parametrize("name", SECRET)
def test_names_of_secrets(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize("name", HARMLESS)
def test_names_of_other_things(name: str) -> None:
    assert not names_secret(name)


@pytest.mark.parametrize(
    "value", ["", "projects/p/secrets/s", "projects/1/secrets/s/versions/latest", "$(HF)"]
)
def test_what_says_where_a_secret_is_is_none(value: str) -> None:
    assert not is_secret("HF_TOKEN", value)


def test_words_of_command_lines() -> None:
    words = (
        "--api-key=a b",
        "--password",
        "hunter2",
        "--lr=1",
        "--use-token",
        "--x",
        "TOKEN=t",
        "--token-file",
        "f",
    )
    assert masked_words(words) == (
        *(
            "--api-key=***",
            "--password",
            "***",
            "--lr=1",
            "--use-token",
            "--x",
            "TOKEN=***",
            "--token-file",
            "f",
        ),
    )
    script = "export DB_PASSWORD='a b' HF_TOKEN=x; python -m t --seed=1"
    assert masked_words(("sh", "-c", script))[2] == (
        "export DB_PASSWORD=*** HF_TOKEN=***; python -m t --seed=1"
    )


def document(secret: str) -> dict[str, object]:
    env = [{"name": "HF_TOKEN", "value": secret}, {"name": "URL", "value": f"https://u:{secret}@host"}]
    task = {"imageUri": "python:3", "args": [f"--hub={secret}"], "env": env}
    return {
        "displayName": "a",
        "error": {"message": f"KeyError: {secret}", "details": [{"stackEntries": [f"x({secret})"]}]},
        "jobSpec": {"workerPoolSpecs": [{"containerSpec": task}]},
    }


@given(secret=VALUE)
def test_a_secret_is_nowhere_in_what_is_shown(secret: str) -> None:
    shown = masked_document(document(secret))
    assert secret not in json.dumps(shown, ensure_ascii=False).replace('\\"', '"').replace("\\\\", "\\")
    assert shown["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["env"][0]["value"] == MASK
    assert masked_document(shown) == shown


def test_what_has_no_secret_is_shown_as_it_is() -> None:
    given_document = document("x") | {"jobSpec": {"workerPoolSpecs": []}}
    assert masked_document(given_document) is given_document


@given(secret=VALUE)
def test_a_replica_s_view_hides_what_its_arguments_hold_too(secret: str) -> None:
    job = json.dumps({"job_args": [f"--api-key={secret}"]})
    env = {"CLOUD_ML_JOB": job, "CLUSTER_SPEC": json.dumps({"job": job}), "PATH": "/bin"}
    shown, argv = masked_replica(env, ("python", "-m", "t", f"--api-key={secret}"))
    assert argv[-1] == f"--api-key={MASK}"
    assert json.loads(shown["CLOUD_ML_JOB"])["job_args"] == [f"--api-key={MASK}"]
    assert json.loads(json.loads(shown["CLUSTER_SPEC"])["job"])["job_args"] == [f"--api-key={MASK}"]
    assert shown["PATH"] == "/bin"


def test_secrets_are_found_with_their_place() -> None:
    found = list(plain_secrets(document("hunter2")))
    assert found == [("jobSpec.workerPoolSpecs[0].containerSpec.env", "HF_TOKEN", "hunter2")]
