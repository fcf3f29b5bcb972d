"""The one way in for clients of Google: HTTP CONNECT to a host of its APIs ends here, any other goes on.

TLS of `*.googleapis.com` ends here, so that every client with its usual addresses meets this server: HTTP on
the same connection, gRPC at a socket of its own. What is not emulated there is refused by a sentence that
names the call, and nothing is sent. Every other host is reached as without the proxy, so that programs can
install packages and load data. But loopback and link-local addresses are not: a container must not reach by
this process what it cannot reach itself.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import re
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from vtrain.emulator.request_log import OncePerHost
from vtrain.https_proxy import outer_proxy

GOOGLE = re.compile(r"[a-z0-9-]+\.googleapis\.com")
"""The hosts that the certificate is for: TLS to them ends here."""
PUBLIC = "commondatastorage.googleapis.com"
"""Google's host that gives public objects of Cloud Storage to everybody: it is reached as any other."""
LED = "vtrain.led"
"""The key of a request's scope that is there where the proxy has led its client here: it has the token."""
HELLO_SECONDS = 10.0
"""The time in which a client has to agree on TLS."""
CONNECT_SECONDS = 30.0
LAST_SECONDS = 10.0
"""The time in which a client has to read what is left, and to hang up, once the server has done so."""
MOST_TUNNELS = 150
"""At the same time. Each holds three descriptors, with gRPC's, and a process has 1024 of them."""
LARGEST_ANSWER = 16 * 1024
_BLOCK = 64 * 1024
_CONFIRMED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_REFUSED = re.compile(r"(?:.+\.)?googleapis\.com|accounts\.google\.com")
"""Other hosts of Google's, which are refused without a look at the call."""
_NO_LOGIN = '407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="vtrain"'
"""With what asks for the login: git sends none before."""
_OWN = "403 The emulator's proxy does not lead to {} on this machine"
_CONNECTION_ERRORS = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.TimeoutError)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Beyond = Callable[[str, str], Awaitable[Streams | None]]
"""Connects, with TLS, to another server that answers for one of Google's hosts, in `h2` or `http/1.1`; None
where there is none. Raises OSError."""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADERS, _SETTINGS, _GOAWAY = 1, 4, 7
"""Types of frames of HTTP/2, and their flags."""
_ACK = _END_STREAM = 1
_LATER = b"\x7f\xff\xff\xff" + bytes(4)
"""Of a server that still answers what it has got by this connection."""
_END_HEADERS = 4
_UNIMPLEMENTED = 12
"""The code of gRPC for what is not emulated, which clients do not ask for again."""
_METADATA_SERVERS = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200")))
"""Those that are not link-local: of EC2 and Compute Engine by IPv6, and of Alibaba Cloud."""


class ProxyRefusal(Exception):
    """An answer to CONNECT: a status with a phrase, which most clients show."""


class Proxy:
    """The proxy of one server, in its event loop, for clients whose logins `admits` takes.

    `grpc` is the socket of the server for gRPC, if there is one; without it each call gets the sentence
    `no_grpc`. `beyond` is asked first.
    """

    def __init__(
        self,
        tls: ssl.SSLContext,
        admits: Callable[[list[str]], bool],
        grpc: Path | None = None,
        beyond: Beyond | None = None,
        no_grpc: str = "The emulator answers no gRPC. Start it again with --grpc.",
    ) -> None:
        self._tls = tls
        self._admits = admits
        self._refused = OncePerHost()
        self._grpc = grpc
        self._beyond = beyond
        self._no_grpc = no_grpc
        self._outer = outer_proxy()
        self._tasks: set[asyncio.Task[None]] = set()
        """The loop does not keep tasks that wait: it would lose one with a client that only listens."""

    def accept(
        self,
        transport: asyncio.Transport,
        target: str,
        logins: list[str],
        make_http: Callable[[], asyncio.Protocol],
    ) -> asyncio.Task[None]:
        """Take over a client that has asked for a connection to `HOST:PORT`, with these proxy logins.

        `make_http` makes the protocol that serves HTTP to it. The task ends with its connection, or once that
        protocol has it.
        """
        transport.pause_reading()
        task = asyncio.get_running_loop().create_task(self._serve(transport, target, logins, make_http))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve(
        self,
        transport: asyncio.Transport,
        target: str,
        logins: list[str],
        make_http: Callable[[], asyncio.Protocol],
    ) -> None:
        try:
            if not self._admits(logins):
                raise ProxyRefusal(_NO_LOGIN)
            if len(self._tasks) > MOST_TUNNELS:
                raise ProxyRefusal(f"503 {MOST_TUNNELS} clients are connected to the emulator's proxy")
            host, port = _host_and_port(target)
            if host == PUBLIC:
                await self._tunnel(transport, target, host, port)
            elif GOOGLE.fullmatch(host) and port == 443:
                await self._end_tls(transport, host, make_http)
            elif _REFUSED.fullmatch(host):
                raise ProxyRefusal(f"403 The emulator does not emulate {target}")
            else:
                await self._tunnel(transport, target, host, port)
        except ProxyRefusal as refusal:
            transport.write(f"HTTP/1.1 {refusal}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            transport.close()
            if str(refusal).startswith(("403", "503")):
                self._refused.record(target, f"{str(refusal)[4:]}.")
        except _CONNECTION_ERRORS:
            transport.abort()
        except BaseException:
            transport.abort()
            raise

    async def _end_tls(
        self, transport: asyncio.Transport, host: str, make_http: Callable[[], asyncio.Protocol]
    ) -> None:
        """Agree on TLS with a client, and hand it to the server of its protocol."""
        transport.write(_CONFIRMED)
        undecided = _Undecided()
        tls = await asyncio.get_running_loop().start_tls(
            transport, undecided, self._tls, server_side=True, ssl_handshake_timeout=HELLO_SECONDS
        )
        if tls is None or undecided.is_lost:
            return
        spoken = tls.get_extra_info("ssl_object").selected_alpn_protocol() or "http/1.1"
        far = None
        if self._beyond is not None:
            far = await asyncio.wait_for(self._beyond(host, spoken), CONNECT_SECONDS)
        if undecided.is_lost:
            if far is not None:
                far[1].transport.abort()
        elif far is not None:
            far[1].write(undecided.data)
            await _join(tls, far)
        elif spoken != "h2":
            protocol = make_http()
            protocol.connection_made(tls)
            tls.set_protocol(protocol)
            if undecided.data:
                protocol.data_received(bytes(undecided.data))
        elif self._grpc is None:
            self._refused.record("gRPC", self._no_grpc)
            await _refuse_grpc(*_streams(tls, undecided.data), self._no_grpc)
        else:
            far = await asyncio.open_unix_connection(str(self._grpc))
            far[1].write(undecided.data)
            await _join(tls, far)

    async def _tunnel(self, transport: asyncio.Transport, target: str, host: str, port: int) -> None:
        """Connect a client to a host that is not Google's. Raises ProxyRefusal where that is not to be."""
        try:
            far = await asyncio.wait_for(self._open(target, host, port), CONNECT_SECONDS)
        except (*_CONNECTION_ERRORS, UnicodeError) as error:
            raise ProxyRefusal(f"502 {target} cannot be reached") from error
        ends = [far[1].get_extra_info(name)[0] for name in ("sockname", "peername")]
        # A container reaches this machine by itself, as far as the firewall lets it.
        if ends[0] == ends[1] and not self._outer and not _is_local(transport.get_extra_info("sockname")[0]):
            far[1].transport.abort()
            raise ProxyRefusal(_OWN.format(target))
        transport.write(_CONFIRMED)
        await _join(transport, far)

    async def _open(self, target: str, host: str, port: int) -> Streams:
        """A connection to a host, by the user's own proxy if there is one, which then looks up names."""
        look_up = asyncio.get_running_loop().getaddrinfo
        flags = socket.AI_NUMERICHOST if self._outer else 0
        try:
            found = await look_up(host, port, type=socket.SOCK_STREAM, flags=flags)
        except socket.gaierror:
            if not self._outer:
                raise
            found = []
        addresses = [str(address[0]) for *_, address in found]
        if host == "localhost" or any(map(_is_local, addresses)):
            raise ProxyRefusal(_OWN.format(target))
        if self._outer:
            return await connect_through(self._outer, target)
        for address in addresses:
            with suppress(OSError):
                return await asyncio.open_connection(address, port)
        raise ConnectionError("No address answers.")


class _Undecided(asyncio.Protocol):
    """A client whose protocol is not yet known; keeps what it says meanwhile."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.is_lost = True


def _host_and_port(target: str) -> tuple[str, int]:
    """The parts of `HOST:PORT`, the host in lower case and without brackets. Raises ProxyRefusal."""
    host, _, port = target.rpartition(":")
    host = host.removeprefix("[").removesuffix("]").rstrip(".").lower()
    if not host or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 1 << 16:
        raise ProxyRefusal("400 CONNECT needs HOST:PORT")
    return host, int(port)


def _is_local(address: str) -> bool:
    """Whether an address is of this machine alone, of its link, or of a metadata server."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    is_near = ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast
    return is_near or ip in _METADATA_SERVERS


async def connect_through(outer: str, target: str) -> Streams:
    """A connection by way of the user's own proxy. Raises OSError where it refuses."""
    url = urlsplit(outer if "://" in outer else f"http://{outer}")
    tls = ssl.create_default_context() if url.scheme == "https" else None
    at = url.port or (443 if tls else 80)
    reader, writer = await asyncio.open_connection(url.hostname, at, ssl=tls, limit=LARGEST_ANSWER)
    try:
        login = base64.b64encode(f"{unquote(url.username or '')}:{unquote(url.password or '')}".encode())
        header = f"Proxy-Authorization: Basic {login.decode()}\r\n" if url.username else ""
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{header}\r\n".encode())
        if not re.match(rb"HTTP/1\.[01] 200\b", await reader.readuntil(b"\r\n\r\n")):
            raise ConnectionError("The user's proxy refuses it.")
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


def _streams(transport: asyncio.Transport, data: bytes | bytearray = b"") -> Streams:
    """The streams of a connection that had another protocol, which has got `data`."""
    reader = asyncio.StreamReader(limit=_BLOCK)
    reader.feed_data(data)
    protocol = asyncio.StreamReaderProtocol(reader)
    protocol.connection_made(transport)
    transport.set_protocol(protocol)
    writer = asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())
    transport.resume_reading()
    return reader, writer


async def _refuse_grpc(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sentence: str) -> None:
    """Refuse a call with a sentence: a client asks again for minutes where its connections break off.

    Raises IncompleteReadError once the client has gone. Source: RFC 9113, RFC 7541, and gRPC over HTTP/2.
    """
    texts = ("content-type", "application/grpc", "grpc-status", str(_UNIMPLEMENTED), "grpc-message", sentence)
    block = b"\x88"  # status 200
    for name, value in zip(texts[::2], texts[1::2], strict=True):
        block += b"\0" + b"".join(bytes([len(text)]) + text.encode("ascii") for text in (name, value))
    try:
        writer.write(_frame(_SETTINGS, 0))
        await reader.readexactly(len(_PREFACE))
        while True:
            head = await reader.readexactly(9)
            await reader.readexactly(int.from_bytes(head[:3], "big"))
            if head[3] == _SETTINGS and not head[4] & _ACK:
                writer.write(_frame(_SETTINGS, _ACK))
            elif head[3] == _HEADERS:
                writer.write(_frame(_HEADERS, _END_HEADERS | _END_STREAM, head[5:], block))
                # A later call comes by a new connection: there may be a server by then.
                writer.write(_frame(_GOAWAY, 0, content=_LATER))
            await writer.drain()
    finally:
        writer.transport.abort()


def _frame(kind: int, flags: int, stream: bytes = bytes(4), content: bytes = b"") -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream + content


async def _join(transport: asyncio.Transport, far: Streams) -> None:
    """Hand bytes on between a client and the far end of its connection, until one of them has left."""
    reader, writer = _streams(transport)
    try:
        await asyncio.gather(_copy(reader, far[1]), _answer(far[0], writer))
        for each in (far[1], writer):
            each.close()
            await each.wait_closed()
    finally:  # nobody may take what is left
        far[1].transport.abort()
        transport.abort()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand on what the far end says; then the client has a while to hang up."""
    await _copy(reader, writer)
    asyncio.get_running_loop().call_later(LAST_SECONDS, writer.transport.abort)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while block := await reader.read(_BLOCK):
            writer.write(block)
            await writer.drain()
    finally:
        if writer.can_write_eof():
            with suppress(OSError):
                writer.write_eof()
        else:  # TLS
            writer.close()
