"""A simple upload: one request, whose body is the content.

The library has no call for it. It wraps a small file in a multipart body, which copies it twice here, and is
taken apart again there: several files at a time, that is what a machine's processors are busy with.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from vtrain.staging.client import Settings

if TYPE_CHECKING:
    from google.auth.transport.requests import AuthorizedSession

CONTENT_TYPE = "application/octet-stream"


class SimpleUploader:
    """Sends content in one request each, over connections that several threads share."""

    def __init__(self, session: AuthorizedSession, endpoint: str, settings: Settings) -> None:
        from vtrain.http_adapter import BoundedAdapter

        self._session = session
        self._endpoint = endpoint
        self._settings = settings
        for scheme in ("https://", "http://"):
            session.mount(scheme, BoundedAdapter(pool_maxsize=settings.workers))

    def send(self, bucket: str, name: str, content: bytes, generation: int) -> int:
        """Put content in place of that generation (0: of nothing); the generation that it is now.

        Repeating is safe, for what is replaced is named. Raises what the library raises.
        """
        from google_crc32c import Checksum

        checksum = base64.b64encode(Checksum(content).digest()).decode("ascii")

        def post() -> int:
            response = self._session.post(
                f"{self._endpoint}/upload/storage/v1/b/{bucket}/o",
                params={"uploadType": "media", "name": name, "ifGenerationMatch": str(generation)},
                data=content,
                headers={"Content-Type": CONTENT_TYPE, "X-Goog-Hash": f"crc32c={checksum}"},
                timeout=self._settings.timeout,
            )
            if not response.ok:
                from google.api_core.exceptions import from_http_response

                raise from_http_response(response)
            return int(response.json()["generation"])

        generation_now: int = self._settings.retry()(post)()
        return generation_now
