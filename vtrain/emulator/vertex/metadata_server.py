"""The metadata server of a Google machine, as far as credentials need it: its token opens the emulator alone.

Programs that look for Application Default Credentials find it by `GCE_METADATA_HOST`. Source: the requests of
google-auth (`compute_engine/_metadata.py`) and of gcloud 528.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from vtrain.messages.names import LOCAL_PROJECT_NUMBER

HEADERS = {"Metadata-Flavor": "Google"}
ACCOUNT = "emulator@vtrain.iam.gserviceaccount.com"
_LIFETIME = {"expires_in": 3600, "token_type": "Bearer"}
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_ACCOUNTS = "instance/service-accounts/"


def metadata_routes(project: str, token: str) -> list[Route]:
    """The routes of the metadata server of a machine in that project, with the emulator's token."""
    account = {"aliases": ["default"], "email": ACCOUNT, "scopes": list(SCOPES)}
    texts = {
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

    async def answer(request: Request) -> Response:
        """One value: a text, a token, or an account."""
        path = request.path_params["path"]
        if path.endswith("/token") and path.startswith(_ACCOUNTS):
            return JSONResponse({"access_token": token or "emulator-token"} | _LIFETIME, headers=HEADERS)
        if path in (f"{_ACCOUNTS}default/", f"{_ACCOUNTS}{ACCOUNT}/") and "recursive" in request.query_params:
            return JSONResponse(account, headers=HEADERS)
        if path in texts:
            return PlainTextResponse(texts[path], headers=HEADERS)
        return PlainTextResponse("Not found.", 404, headers=HEADERS)

    return [Route("/computeMetadata/v1/{path:path}", answer)]
