"""The metadata server of a Google machine, as far as credentials need it: its token opens the emulator alone.

Programs that look for Application Default Credentials find it by `GCE_METADATA_HOST`. Source: the requests of
google-auth (`compute_engine/_metadata.py`) and of gcloud 528.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from vtrain.emulator.proxy import LED
from vtrain.messages.names import LOCAL_PROJECT_NUMBER

HEADERS = {"Metadata-Flavor": "Google"}
ACCOUNT = "emulator@vtrain.iam.gserviceaccount.com"
_LIFETIME = {"expires_in": 3600, "token_type": "Bearer"}
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_ACCOUNTS = "instance/service-accounts/"
_ROOT = "/computeMetadata/v1/"


class MetadataServer:
    """ASGI middleware that answers for the metadata server of a machine in a project, with the token."""

    def __init__(self, app: ASGIApp, project: str, token: str) -> None:
        self._app = app
        self._token = token
        self._texts = {
            "project/project-id": project,
            "project/numeric-project-id": LOCAL_PROJECT_NUMBER,
            "universe/universe-domain": "googleapis.com",
            "universe/universe_domain": "googleapis.com",
            "instance/zone": f"projects/{LOCAL_PROJECT_NUMBER}/zones/us-central1-a",
            "instance/id": "1",
            _ACCOUNTS: f"default/\n{ACCOUNT}/\n",
            f"{_ACCOUNTS}default/email": ACCOUNT,
            f"{_ACCOUNTS}{ACCOUNT}/email": ACCOUNT,
            f"{_ACCOUNTS}default/scopes": "\n".join(SCOPES),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Who is led here, as trainers are, has a token of its own."""
        app = self._app
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and LED not in scope:
            headers = Headers(scope=scope)
            if scope["path"].startswith(_ROOT):
                app = self._answer(scope["path"][len(_ROOT) :], scope["query_string"])
                # As there: who was led here by an address of somebody else's does not ask so.
                if headers.get("metadata-flavor") != "Google" or "x-forwarded-for" in headers:
                    app = PlainTextResponse("Metadata-Flavor: Google is missing.", 403, headers=HEADERS)
            elif scope["path"] == "/" and "metadata-flavor" in headers:
                app = PlainTextResponse("", headers=HEADERS)  # this is a machine of Google
        await app(scope, receive, send)

    def _answer(self, path: str, query: bytes) -> Response:
        """One value: a text, a token, or an account."""
        if path.endswith("/token") and path.startswith(_ACCOUNTS):
            given = {"access_token": self._token or "emulator-token"} | _LIFETIME
            return JSONResponse(given, headers=HEADERS)
        if path in (f"{_ACCOUNTS}default/", f"{_ACCOUNTS}{ACCOUNT}/") and b"recursive" in query:
            account = {"aliases": ["default"], "email": ACCOUNT, "scopes": list(SCOPES)}
            return JSONResponse(account, headers=HEADERS)
        if path in self._texts:
            return PlainTextResponse(self._texts[path], headers=HEADERS)
        return PlainTextResponse("Not found.", 404, headers=HEADERS)
