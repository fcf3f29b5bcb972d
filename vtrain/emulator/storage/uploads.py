"""Requests that upload: simple, multipart and resumable. Content is written to the disk as it arrives."""

from __future__ import annotations

import re
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from vtrain.emulator.storage.bodies import LARGEST_OBJECT, receive, receive_body
from vtrain.emulator.storage.storage_call import StorageCall, answer, read_json
from vtrain.emulator.storage.storage_documents import object_document
from vtrain.emulator.storage.storage_refusals import StorageRefusal, invalid
from vtrain.emulator.storage.stores import StorageService, UploadSession

CHUNK_UNIT = 256 * 1024
"""A chunk of a resumable upload has at least so many bytes, of which multiples are kept; the last has any."""
_RESUME_INCOMPLETE = 308
_CANCELLED = 499


async def insert_object(service: StorageService, request: Request, call: StorageCall) -> Response:
    """`POST …/o`: content, content with metadata, the start of a resumable upload, or a part of one."""
    kind = call.query.get("uploadType", "")
    if (
        kind == "resumable" and "upload_id" in call.query
    ):  # gcsfs sends chunks like this, and the service takes it
        return await continue_upload(service, request, call)
    if kind == "resumable":
        return await _start(service, request, call)
    if kind == "multipart":
        return await _insert_multipart(service, request, call)
    if kind == "media":
        return await _insert_media(service, request, call)
    raise invalid(f"uploadType: {kind!r} is not media, multipart or resumable.")


async def _insert_media(service: StorageService, request: Request, call: StorageCall) -> Response:
    fields = {
        "contentType": call.headers.get("content-type", "application/octet-stream"),
        "contentEncoding": call.query.get("contentEncoding"),
        **_checksums(call),
    }
    with service.objects.open_partial(call.bucket) as partial:
        await receive(request, partial.write, LARGEST_OBJECT)
        put = service.objects.put
        found = await run_in_threadpool(put, call.bucket, _name(call, {}), partial, fields, call.conditions)
    return answer(object_document(found, call.base))


async def _insert_multipart(service: StorageService, request: Request, call: StorageCall) -> Response:
    body = MultipartBody()
    with service.objects.open_partial(call.bucket) as partial:
        await receive(request, lambda data: partial.write(body.feed(data)), LARGEST_OBJECT)
        body.close()
        content_type = body.content_type or "application/octet-stream"
        fields = {"contentType": content_type, **body.document, **_checksums(call)}
        name = _name(call, body.document)
        put = service.objects.put
        found = await run_in_threadpool(put, call.bucket, name, partial, fields, call.conditions)
    return answer(object_document(found, call.base))


async def _start(service: StorageService, request: Request, call: StorageCall) -> Response:
    document = read_json(await receive_body(request))
    content_type = call.headers.get("x-upload-content-type", "application/octet-stream")
    fields = {"contentType": content_type, **document, **_checksums(call)}
    name = _name(call, document)
    session = await run_in_threadpool(
        UploadSession, service.objects, call.bucket, name, fields, call.conditions
    )
    upload_id = service.sessions.keep(session)
    location = f"{call.base}{request.url.path}?uploadType=resumable&upload_id={upload_id}"
    response = Response(headers={"x-guploader-uploadid": upload_id})
    response.raw_headers.append((_Spelled(b"Location"), location.encode("latin-1")))
    return response


class _Spelled(bytes):
    """A name of a header that stays as it is: TensorFlow finds `Location` alone, and uvicorn lowers names."""

    def lower(self) -> bytes:
        return self


async def continue_upload(service: StorageService, request: Request, call: StorageCall) -> Response:
    """`PUT` to a resumable upload: a chunk, the whole content, or a question about the received bytes."""
    session = service.sessions.get(call.query.get("upload_id", ""))
    async with session.lock:
        if session.finished is None:
            span = ContentRange(call.headers.get("content-range", _WHOLE))
            await _add(session, request, span, _checksums(call))
        if session.finished is not None:
            return answer(object_document(session.finished, call.base))
        held = {"range": f"bytes=0-{session.received - 1}"} if session.received else {}
        if call.headers.get("x-guploader-no-308") == "yes":  # from Go, where a 308 is a redirect
            return Response(headers={**held, "x-http-status-code-override": f"{_RESUME_INCOMPLETE}"})
        return Response(status_code=_RESUME_INCOMPLETE, headers=held)


_WHOLE = "bytes 0-*/*"
_SPAN = re.compile(r"bytes (?:\*|([0-9]{1,19})-(?:\*|([0-9]{1,19})))/(?:\*|([0-9]{1,19}))")


class ContentRange:
    """A `Content-Range` of an upload: `bytes 0-99/100`, `bytes 0-99/*`, `bytes */100`, `bytes */*`.

    `bytes 0-*/*` is all that the body has: so Node's library streams. `start` is None for a question,
    `end` is None where the body decides.
    """

    def __init__(self, header: str) -> None:
        match = _SPAN.fullmatch(header.strip())
        if match is None:
            raise invalid(f"Content-Range: {header[:100]!r} is not a byte range.")
        first, last, total = (None if number is None else int(number) for number in match.groups())
        self.start, self.total = first, total
        self.end = total if last is None else last + 1
        most = LARGEST_OBJECT if total is None else total
        if first is not None and last is not None and not first <= last < most:
            raise invalid(f"Content-Range: {header!r} is not a byte range.")


async def _add(
    session: UploadSession, request: Request, span: ContentRange, checksums: dict[str, str]
) -> None:
    """Write a chunk, or all the rest where the range has no end. Make the object at the end."""
    if span.start is not None:
        appender = _Appender(session, span.start, _end_of_chunk(session, span, span.start))
        most = LARGEST_OBJECT if span.end is None else span.end - span.start
        with session.opened():
            await receive(request, appender, most)
    is_rest = span.start is not None and span.end is None
    if is_rest or session.received == span.total:
        await run_in_threadpool(session.finish, checksums)


def _end_of_chunk(session: UploadSession, span: ContentRange, start: int) -> int:
    """The position up to which a chunk is kept: clients go on from there. Raises StorageRefusal."""
    if start > session.received:
        raise invalid(f"The chunk begins at {start}, and {session.received} bytes have arrived.")
    if span.end is None:
        return LARGEST_OBJECT
    if span.end == span.total:
        return span.end
    length = span.end - start
    if length < CHUNK_UNIT:
        raise invalid(f"A chunk of {length} bytes that is not the last has fewer than {CHUNK_UNIT}.")
    return span.end - length % CHUNK_UNIT


class _Appender:
    """Writes the bytes of one chunk to an upload, up to a position of its content."""

    def __init__(self, session: UploadSession, position: int, end: int) -> None:
        self._session = session
        self._position = position
        self._end = end

    def __call__(self, data: bytes) -> None:
        kept = data[: max(self._end - self._position, 0)]
        self._session.write(self._position, kept)
        self._position += len(kept)


async def cancel_upload(service: StorageService, _request: Request, call: StorageCall) -> Response:
    """`DELETE` of a resumable upload."""
    service.sessions.cancel(call.query.get("upload_id", ""))
    return Response(status_code=_CANCELLED)


def _name(call: StorageCall, document: dict[str, Any]) -> str:
    """The object's name, from the query or the document. Raises StorageRefusal."""
    name = call.query.get("name") or document.get("name")
    if not isinstance(name, str) or not name:
        raise StorageRefusal(400, "required", "The object has no name.")
    return name


def _checksums(call: StorageCall) -> dict[str, str]:
    """The checksums that a client sends in headers, as the fields of an object."""
    found = dict(re.findall(r"\b(crc32c|md5)=([^,\s]+)", call.headers.get("x-goog-hash", "")))
    if "md5" in found or "content-md5" in call.headers:
        found["md5Hash"] = found.pop("md5", "") or call.headers["content-md5"]
    return found


LARGEST_HEAD = 1 << 20
"""Bytes before the content."""


class MultipartBody:
    """An incremental parser of a `multipart/related` body: a JSON document, then the content.

    `document` and `content_type` are known once `feed` has returned content.
    """

    def __init__(self) -> None:
        self.document: dict[str, Any] = {}
        self.content_type = ""
        self._buffer = b""
        self._end = b""
        self._ended = False

    def feed(self, data: bytes) -> bytes:
        """The content that these bytes complete. Raises StorageRefusal."""
        self._buffer += data
        if not self._end and not self._read_head():
            return b""
        if self._ended:
            return b""
        content, mark, _ = self._buffer.partition(self._end)
        self._ended = bool(mark)
        kept = 0 if mark else len(self._end) - 1
        cut = max(len(content) - kept, 0)
        self._buffer = content[cut:]
        return content[:cut]

    def close(self) -> None:
        """Raise StorageRefusal unless the content is complete."""
        if not self._ended:
            raise invalid("The multipart body breaks off.")

    def _read_head(self) -> bool:
        """Remove the document and the content's headers from the buffer. False while they are incomplete."""
        head = _split_head(self._buffer[: LARGEST_HEAD + 1])
        if head is None:
            if len(self._buffer) > LARGEST_HEAD:
                raise StorageRefusal(400, "parseError", "The body is not multipart/related with two parts.")
            return False
        self._end, document, headers, length = head
        self._buffer = self._buffer[length:]
        self.document = read_json(document)
        found = re.search(rb"^content-type:([^\r\n]*)", headers, re.IGNORECASE | re.MULTILINE)
        self.content_type = found[1].strip().decode("latin-1") if found else ""
        return True


def _split_head(data: bytes) -> tuple[bytes, bytes, bytes, int] | None:
    """The mark that ends each part, the document, the headers of the content, and where that begins.

    The boundary is that of the first line: clients quote it in several ways in the request's header.
    """
    skipped = len(data) - len(data.lstrip())
    first = data.find(b"\n", skipped)
    if first < 0 or not data.startswith(b"--", skipped):
        return None
    line = data[skipped:first]
    if not line.strip(b"- \t\r"):
        return None
    newline = b"\r\n" if line.endswith(b"\r") else b"\n"
    mark = newline + line.rstrip()
    blank = data.find(newline * 2, first - len(newline) + 1)
    part = data.find(mark, blank + len(newline)) if blank >= 0 else -1
    headers = data.find(newline, part + len(mark)) if part >= 0 else -1
    end = data.find(newline * 2, headers) if headers >= 0 else -1
    if end < 0 or data[part + len(mark) : headers].strip(b" \t"):
        return None
    return mark, data[blank + 2 * len(newline) : part], data[headers:end], end + 2 * len(newline)
