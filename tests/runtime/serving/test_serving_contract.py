"""The contract with a serving container: what it is told, and what it may answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from lib.serving import serving

from vtrain.errors import ConfigError, ServiceError
from vtrain.messages.codec import read_message
from vtrain.messages.model import Model
from vtrain.runtime.serving.serving_contract import ask, await_health, last_words, served, start_seconds

Answer = tuple[int, bytes]
Serve = Callable[..., int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server whose answers, one after the other, are given; the last one for ever. Its port."""
    stack = ExitStack()

    def start(*answers: Answer) -> int:
        left = list(answers)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, body = left.pop(0) if len(left) > 1 else left[0]
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_args: Any) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        stack.enter_context(serving(server))
        return int(server.server_address[1])

    with stack:
        yield start


def container(**spec: Any) -> Model:
    return read_message(Model, {"name": "m", "containerSpec": {"imageUri": "serve", **spec}})


def test_variables_have_their_defaults() -> None:
    run = served(container(), "gs://models/a")
    assert run.port == 8080
    assert run.health_route == "/v1/endpoints/1000000000000000001/deployedModels/1000000000000000002"
    assert run.predict_route == f"{run.health_route}:predict"
    wanted = {
        "AIP_HTTP_PORT": "8080",
        "AIP_HEALTH_ROUTE": run.health_route,
        "AIP_PREDICT_ROUTE": run.predict_route,
        "AIP_STORAGE_URI": "gs://models/a",
        "AIP_MODE": "PREDICTION",
        "AIP_FRAMEWORK": "CUSTOM_CONTAINER",
    }
    assert run.env.items() >= wanted.items()


def test_the_model_says_routes_port_variables_and_command() -> None:
    run = served(
        container(
            ports=[{"containerPort": 9000}, {"containerPort": 9001}],
            healthRoute="/health",
            predictRoute="/predict",
            env=[{"name": "A", "value": "$(AIP_HTTP_PORT)"}, {"name": "B", "value": "$(A)-$$(A)-$(C)"}],
            command=["serve", "$(B)"],
            args=["--files=$(AIP_STORAGE_URI)"],
        ),
        "/model",
    )
    assert (run.port, run.health_route, run.predict_route) == (9000, "/health", "/predict")
    assert (run.env["A"], run.env["B"]) == ("9000", "9000-$(A)-$(C)")
    assert (run.command, run.args) == (("serve", "9000-$(A)-$(C)"), ("--files=/model",))


@pytest.mark.parametrize("route", ["health", "/health check", "/a\n", "/gesundheit/\xfc"])
def test_a_route_that_nobody_can_ask_is_refused_before_anything_starts(route: str) -> None:
    with pytest.raises(ConfigError, match="no path of HTTP"):
        served(container(healthRoute=route), "")
    with pytest.raises(ConfigError, match="no path of HTTP"):
        served(container(predictRoute=route), "")


def test_the_model_says_how_long_to_wait() -> None:
    assert start_seconds(container()) == 1800
    assert start_seconds(container(deploymentTimeout="60s")) == 60
    assert start_seconds(container(deploymentTimeout="0s")) == 1800


def silent(_text: str) -> None:
    """Say nothing."""


def test_a_long_wait_is_told(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtrain.runtime.serving.serving_contract.TELL_SECONDS", 0.0)
    told: list[str] = []
    await_health(serve((503, b""), (404, b""), (200, b"")), "/health", 60, lambda: "", told.append)
    assert [text.partition("GET ")[2] for text in told] == [
        "/health gave 503 Service Unavailable.",
        "/health gave 404 Not Found.",
    ]


def test_a_server_that_stays_unwell_is_told(serve: Serve) -> None:
    with pytest.raises(ServiceError, match="503 Service Unavailable") as raised:
        await_health(serve((503, b"")), "/health", 0.1, lambda: "", silent)
    assert "AIP_HEALTH_ROUTE" in raised.value.hint


def test_a_server_that_ends_is_told_with_its_words(serve: Serve) -> None:
    with pytest.raises(ServiceError, match="its last words"):
        await_health(serve((503, b"")), "/", 60, lambda: "its last words", silent)


def test_predictions_are_read(serve: Serve) -> None:
    assert ask(serve((200, b'{"predictions": [1, {"a": 2}]}')), "/", {"instances": [1, 2]}) == [1, {"a": 2}]


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        ((400, b'{"error": "bad shape"}'), ConfigError, "bad shape"),
        ((404, b"nothing here"), ConfigError, "404 Not Found"),
        ((500, b"Traceback"), ServiceError, "Traceback"),
        ((503, b""), ServiceError, "an empty answer"),
        ((200, b"[1]"), ServiceError, "predictions"),
        ((200, b'{"predictions": 1}'), ServiceError, "predictions"),
        ((200, b"no json"), ServiceError, "no json"),
        ((200, b"\xff\xfe"), ServiceError, "predictions"),
        ((200, b'{"predictions": ' + b"[" * 90_000 + b"]" * 90_000 + b"}"), ServiceError, "predictions"),
        ((500, b'{"error": ' + b"[" * 90_000 + b"]" * 90_000 + b"}"), ServiceError, "500 Internal"),
        ((500, b'{"error": "' + b"x" * 90_000 + b'"}'), ServiceError, "xxx"),
    ],
)
def test_other_answers_are_told(serve: Serve, answer: Answer, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said) as raised:
        ask(serve(answer), "/predict", {"instances": [1]})
    assert len(str(raised.value)) < 1000


def test_a_server_that_is_gone_is_told(serve: Serve) -> None:
    with pytest.raises(ServiceError, match="did not answer"):
        ask(1, "/predict", {"instances": [1]})


def test_an_answer_without_end_is_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtrain.runtime.serving.serving_contract.LARGEST_ANSWER", 10)
    large = json.dumps({"predictions": list(range(100))}).encode()
    with pytest.raises(ServiceError, match="larger than"):
        ask(serve((200, large)), "/", {"instances": [1]})


def test_the_last_words_of_a_server() -> None:
    assert last_words([f"{number}\n" for number in range(100)]).splitlines()[-2:] == ["98", "99"]
    assert last_words(["RuntimeError: no model", *["see the manual"] * 12]).startswith(
        "RuntimeError: no model"
    )
    assert last_words([]) == "It wrote nothing."
