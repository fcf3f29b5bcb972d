"""Which names stand for secrets, and what is masked."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtrain.messages.custom_job import CustomJob
from vtrain.messages.secrets import (
    LONGEST_NAME,
    MASK,
    MOST_SOUGHT,
    is_made_here,
    is_secret,
    masked_document,
    masked_replica,
    masked_text,
    masked_words,
    names_secret,
    plain_secrets,
)

SECRET = (
    "WANDB_API_KEY HF_TOKEN hfToken AWS_SECRET_ACCESS_KEY DB_PASSWORD PGPASSWORD api_key apiKey APIKey "
    "OPENAI_KEY TOKEN PASSWORD SECRET SECRET_KEY_BASE GITHUB_TOKEN API_KEYS ACCESS_TOKENS TOKEN2 API_KEY_1 "
    "OPENAI_APIKEY client_secret db.password MY_CREDENTIALS PASSPHRASE NVIDIA_API_KEY DB_PASS MYSQL_PWD "
    "privateKey API_KEY_OPENAI --api-key --db-password A_SECRET_B A_CREDENTIALS_B MYPASSWORD MYACCESSTOKEN "
    "API_TOKEN_B SSH_KEYS_B BEARER_TOKENS X_PASS X_PWD S3_KEY OBJECT_KEY FORWARD_PASS TRAIN_TOKEN"
).split()
HARMLESS = (
    "KEY KEYS MONKEY KEYBOARD HOTKEY TOKENIZER TOKENIZERS_PARALLELISM TOKENS NUM_TOKENS MAX_TOKENS "
    "MAX_NEW_TOKENS PAD_TOKEN EOS_TOKEN_ID TOKEN_TYPE_IDS TOKEN_DIM MAX_TOKEN_LENGTH SORT_KEY PRIMARY_KEY "
    "PUBLIC_KEY KMS_KEY KEY_SIZE API_KEY_FILE PASSWORD_FILE SECRET_NAME PWD OLDPWD PASS COMPASS SECRETARY "
    "BEGIN_TOKEN USE_TOKEN API_TOKEN_COLUMN API_KEY_VERSION API_X_KEY_B KEY_API X_KEYS SSH API 1 _ "
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


WORDS = st.sampled_from(
    [*SECRET, *HARMLESS, "a://u:", "hunter22", "@h", "=", "--", " ", "\n", "\x01", "é", "\\", '"', "/"]
)
TEXT = st.lists(WORDS, max_size=6).map("".join)
VARIABLE = st.fixed_dictionaries({"name": TEXT, "value": TEXT})
FIELDS = st.fixed_dictionaries(
    {"args": st.lists(TEXT, max_size=3), "env": st.lists(VARIABLE, max_size=2), "error": TEXT}
)


@given(fields=FIELDS)
def test_a_document_without_a_secret_s_name_is_not_walked_through_and_hides_the_same(
    fields: dict[str, object],
) -> None:
    walked = masked_document(fields | {"displayName": "the key"})
    assert masked_document(fields) == {name: walked[name] for name in fields}


@pytest.mark.parametrize("odd", ["\ud800", 2**70, float("nan")])
def test_a_secret_beside_what_json_does_not_hold_is_masked(odd: object) -> None:
    shown = masked_document({"error": odd, "env": [{"name": "HF_TOKEN", "value": "hunter22"}]})
    assert shown["env"] == [{"name": "HF_TOKEN", "value": MASK}]


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
    place = "jobSpec.workerPoolSpecs[0].containerSpec.env"
    assert list(plain_secrets(document("hunter2"))) == [
        (place, "HF_TOKEN", "hunter2"),
        (place, "URL", "hunter2"),
    ]
    assert list(plain_secrets([[{"name": "A", "value": "b"}], [{"name": "TOKEN", "value": "t"}]])) == [
        ("[1]", "TOKEN", "t")
    ]
    odd = [{"name": "TOKEN", "value": 1}, {"name": "TOKEN", "value": "t", "more": ""}, {"name": "TOKEN"}, "t"]
    assert list(plain_secrets({"env": odd})) == []


@pytest.mark.parametrize(("length", "named"), [(LONGEST_NAME, True), (LONGEST_NAME + 1, False)])
def test_a_long_name_is_data(length: int, named: bool) -> None:
    name = "_TOKEN".rjust(length, "a")
    assert names_secret(name) is named
    assert masked_words((f"{name}=value", f"x; {name}=value")) == (
        (f"{name}=***", f"x; {name}=***") if named else (f"{name}=value", f"x; {name}=value")
    )


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("TOKEN=a;echo", "TOKEN=***"),  # a word that is one assignment, as `env` takes it
        ("x; TOKEN=a;echo", "x; TOKEN=***;echo"),
        ("x; TOKEN=a&&echo|cat TOKEN=b|cat", "x; TOKEN=***&&echo|cat TOKEN=***|cat"),
        ("x; TOKEN=\"a b\" PASSWORD='c d' y", "x; TOKEN=*** PASSWORD=*** y"),
        ('x; TOKEN="a PASSWORD=c', "x; TOKEN=*** PASSWORD=***"),
        ("x; TOKEN='a b'c\"d e\"'f' PASSWORD=g'h;", "x; TOKEN=*** PASSWORD=***;"),
        ("x; TOKEN= y", "x; TOKEN= y"),
        ('x; TOKEN="" y', 'x; TOKEN="" y'),
        ("x; TOKEN=$(OTHER) y", "x; TOKEN=$(OTHER) y"),
        ("x; TOKEN=projects/p/secrets/s PASSWORD=a", "x; TOKEN=projects/p/secrets/s PASSWORD=***"),
        ("x; A=1 TOKEN=a A=2 TOKEN=b", "x; A=1 TOKEN=*** A=2 TOKEN=***"),
        ("x; TOKEN=A=1;PASSWORD=b", "x; TOKEN=***;PASSWORD=***"),
        ("x; TOKEN=PASSWORD=b;c", "x; TOKEN=***;c"),
        ("1TOKEN=a;echo", "1TOKEN=***;echo"),
        ("--env=HF_TOKEN=a", "--env=HF_TOKEN=***"),
        ("--args=--api-key=a b", "--args=--api-key=*** b"),
        ("x db.password=a 1TOKEN=b", "x db.password=*** 1TOKEN=***"),
        ("--url=https://u:p@h/x", "--url=https://u:***@h/x"),
        ("x; DB_PASSWORD=postgres://u:p@h y", "x; DB_PASSWORD=*** y"),
        ("x; curl https://u:TOKEN=p;q@h", "x; curl https://u:***@h"),
        ("x; curl https://u:a;TOKEN=p@h/x y", "x; curl https://u:*** y"),
    ],
)
def test_what_a_script_assigns(script: str, shown: str) -> None:
    assert masked_words((script,)) == (shown,)
    assert masked_words(masked_words((script,))) == (shown,)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://user:PASS@host:5432/db", "postgres://user:***@host:5432/db"),
        ("redis://:PASS@host", "redis://:***@host"),
        ("a https://u:p@ss:w@h b", "a https://u:***@h b"),
        ("https://u:p%2F@h/x:y@z?a=b:c@d", "https://u:***@h/x:y@z?a=b:c@d"),
        ("git+https://u:a@h, git+https://u:b@h", "git+https://u:***@h, git+https://u:***@h"),
        ("a://b:c://u:d@h", "a://b:c://u:***@h"),
        ("https://user@host:80/x", "https://user@host:80/x"),
        ("git+https://ghp_0123456789abcdef@h/x", "git+https://***@h/x"),
        ("HTTPS://0123456789abcdef:@h", "HTTPS://***:@h"),
        ("https://somebody.with.a.long.name@h", "https://somebody.with.a.long.name@h"),
        ("ssh://ghp_0123456789abcdef@h", "ssh://ghp_0123456789abcdef@h"),
        ("https://0123456789abcde@h", "https://0123456789abcde@h"),
        ("https://user:@host", "https://user:@host"),
        ("https://host:80/x@y", "https://host:80/x@y"),
        ("https://host:80?x@y", "https://host:80?x@y"),
        ("https://host:80#x@y", "https://host:80#x@y"),
        ("https://u:$(PASS)@h", "https://u:$(PASS)@h"),
        ("user:PASS@host", "user:PASS@host"),
        ('"https://host:80" x@y', '"https://host:80" x@y'),
        ("'https://host:80'x@y", "'https://host:80'x@y"),
        ("<https://host:80>x@y", "<https://host:80>x@y"),
        ("https://host:80<x@y", "https://host:80<x@y"),
        ("https://host:80\\x@y", "https://host:80\\x@y"),
    ],
)
def test_passwords_in_urls(url: str, shown: str) -> None:
    assert masked_words(("x", url)) == ("x", shown)
    assert masked_text(url, (), {}) == shown
    assert masked_replica({"PLACE": url}, ())[0] == {"PLACE": shown}
    job = {"displayName": url, "error": {"message": url}, "env": [{"name": "PLACE", "value": url}]}
    masked = {"displayName": url, "error": {"message": shown}, "env": [{"name": "PLACE", "value": shown}]}
    assert masked_document(job) == masked


def test_the_value_that_a_shell_puts_together_is_hidden_elsewhere_too() -> None:
    script = "TOKEN='Xhunter'22\"-a bX\" python t.py"
    assert masked_replica({"A": "Xhunter22-a bX"}, ("x", "; " + script)) == (
        {"A": "***"},
        ("x", "; TOKEN=*** python t.py"),
    )


def test_the_password_of_a_url_is_hidden_elsewhere_too() -> None:
    job = {
        "args": ["--url=a://u:hunter22@h", "hunter22", "--short=a://u:five5@h", "five5"],
        "error": {"message": "no hunter22", "details": [{"stackEntries": ["b://u:other-one@h"]}]},
        "replicas": ["other-one", 1, None],
        "labels": {"a": "hunter22"},
    }
    assert masked_document(job) == {
        "args": ["--url=a://u:***@h", "***", "--short=a://u:***@h", "five5"],
        "error": {"message": "no ***", "details": [{"stackEntries": ["b://u:***@h"]}]},
        "replicas": ["***", 1, None],
        "labels": {"a": "hunter22"},
    }
    only_there = {"error": {"message": "a://u:p@h"}}
    assert masked_document(only_there) == {"error": {"message": "a://u:***@h"}}
    assert masked_document({"env": {"a": ["a://u:p@h"]}}) == {"env": {"a": ["a://u:***@h"]}}


def test_a_password_is_read_only_from_fields_that_may_hold_one() -> None:
    elsewhere = {"displayName": "a://u:hunter22@h", "error": {"message": "hunter22"}}
    assert masked_document(elsewhere) == elsewhere
    assert masked_document({"replicas": ["a://u:hunter22@h"], "error": "hunter22"}) == {
        "replicas": ["a://u:***@h"],
        "error": "***",
    }


def test_a_short_secret_is_masked_in_its_own_place() -> None:
    job = {"env": [{"name": "TOKEN", "value": "five5"}, {"name": "A", "value": "five5"}]}
    assert masked_document(job) == {
        "env": [{"name": "TOKEN", "value": "***"}, {"name": "A", "value": "five5"}]
    }


def test_a_secret_is_sought_from_six_characters_on() -> None:
    shown, argv = masked_replica(
        {"TOKEN": "sixsix", "PASSWORD": "five5", "A": "sixsix five5"}, ("five5sixsix",)
    )
    assert shown == {"TOKEN": "***", "PASSWORD": "***", "A": "*** five5"}
    assert argv == ("five5***",)


def test_the_longest_secret_is_hidden_first() -> None:
    env = {"A_TOKEN": "secret", "B_TOKEN": "secret-and-more", "X": "secret-and-more secret"}
    assert masked_replica(env, ())[0]["X"] == "*** ***"


@pytest.mark.parametrize("secret", ['quo"ted', "back\\slash", "new\nline", "umläut", 'ü"\\both'])
def test_a_secret_is_hidden_however_json_spells_it(secret: str) -> None:
    for ascii_only in (True, False):
        once = json.dumps([secret], ensure_ascii=ascii_only)
        twice = json.dumps(once, ensure_ascii=ascii_only)
        env = {"TOKEN": secret, "A": secret, "B": once, "C": twice}
        shown = {"TOKEN": "***", "A": "***", "B": '["***"]', "C": '"[\\"***\\"]"'}
        assert masked_replica(env, ())[0] == shown


def test_with_very_many_secrets_texts_are_hidden_as_a_whole() -> None:
    """Each secret costs a look through each text, so that a job of many would take its square."""
    few = {f"A{n}_TOKEN": f"secret-{n:03d}" for n in range(MOST_SOUGHT)}
    texts = {"A": "secret-007", "B": "plain text", "C": "plain", "D": "plain6"}
    assert masked_replica(few | texts, ())[0] == dict.fromkeys(few, "***") | texts | {"A": "***"}
    many = few | {"ONE_MORE_TOKEN": "secret-more"}
    shown = {"A": "***", "B": "***", "C": "plain", "D": "***"}
    assert masked_replica(many | texts, ())[0] == dict.fromkeys(many, "***") | shown
    short = few | {"ONE_MORE_TOKEN": "five5"}
    assert masked_replica(short | texts, ())[0]["B"] == "plain text"


def test_a_report_hides_what_the_command_line_and_the_environment_hold() -> None:
    text = "KeyError: 'hunter22' at db://u:p@h, not spoken-word, with from-the-shell and /home/me"
    words = ("--password", "hunter22", "--word=spoken-word")
    assert masked_text(text, words, {"A_TOKEN": "from-the-shell", "HOME": "/home/me"}) == (
        "KeyError: '***' at db://u:***@h, not spoken-word, with *** and /home/me"
    )


def test_the_word_after_an_option() -> None:
    assert masked_words(("--password", "", "hunter2")) == ("--password", "", "hunter2")
    assert masked_words(("--password", "--lr", "1")) == ("--password", "--lr", "1")
    assert masked_words(("--password=a", "b")) == ("--password=***", "b")
    assert masked_words(("password", "b", "-token", "c", "d")) == ("password", "b", "-token", "***", "d")
    job = {"command": ["sh", "--password", "hunter2"], "args": "no list TOKEN=a", "env": "none"}
    assert masked_document(job) == job | {"command": ["sh", "--password", "***"]}


def test_a_resource_of_this_machine() -> None:
    assert is_made_here(CustomJob(display_name="a"))
    for name, own in (("projects/local/locations/l/customJobs/1", True), ("projects/localx/l", False)):
        assert is_made_here(CustomJob(display_name="a", answer={"name": name})) is own
    assert not is_made_here(CustomJob(display_name="a", answer={}))


def test_the_token_of_an_own_server_is_masked() -> None:
    token = f"token-{'aB3_-xyz' * 4}"
    env = {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:9023/{token}"}
    assert masked_replica(env, ())[0] == {"STORAGE_EMULATOR_HOST": "http://127.0.0.1:9023/***"}
    assert masked_text(f"GET /{token}/v1/x, then {token}", (), env) == "GET /***/v1/x, then ***"
    for other in (f"/{token}x", "/token-name", f"x{token}"):
        assert masked_text(other, (), {}) == other
