"""Appliances for tests on real sockets, each with a function that speaks for it."""

import hashlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from feedferry.schemas.account import Chunk
from feedferry.transforms.sinks.push.model import ChunkPart

LARGE = 24 << 20
"""More bytes than fit into the buffers of a connection on loopback."""

BOUND_SECONDS = 300
Talk = Callable[[socket.socket], None]


class Listener:
    """A listener on loopback: its port, and the request of each connection."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.heard: list[bytes] = []
        self.is_over = threading.Event()
        self.url = f"http://127.0.0.1:{port}"

    def body(self) -> bytes:
        """Return the body of the only request."""
        (request,) = self.heard
        return request.partition(b"\r\n\r\n")[2]


@contextmanager
def listening(
    talk: Callable[[Listener], Talk], *, context: ssl.SSLContext | None = None
) -> Iterator[Listener]:
    """Let `talk` speak on each connection, one after another."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        listener = Listener(server.getsockname()[1])
        thread = threading.Thread(target=_serve, args=(server, talk(listener), context))
        thread.start()
        try:
            yield listener
        finally:
            listener.is_over.set()
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            thread.join(BOUND_SECONDS)
            assert not thread.is_alive()


def _serve(server: socket.socket, talk: Talk, context: ssl.SSLContext | None) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        connection.settimeout(BOUND_SECONDS)
        with suppress(OSError), connection:
            if context is None:
                talk(connection)
            else:
                with context.wrap_socket(connection, server_side=True) as wrapped:
                    talk(wrapped)


def saying(*replies: bytes) -> Callable[[Listener], Talk]:
    """Read each request to its end, and send one reply after another."""
    left = list(replies)

    def talk_of(listener: Listener) -> Talk:
        def talk(connection: socket.socket) -> None:
            listener.heard.append(read_request(connection))
            connection.sendall(left.pop(0) if len(left) > 1 else left[0])

        return talk

    return talk_of


def dripping(head: bytes, drop: bytes) -> Callable[[Listener], Talk]:
    """Answer each request with a head, and then with a drop over and over."""

    def talk_of(listener: Listener) -> Talk:
        def talk(connection: socket.socket) -> None:
            listener.heard.append(read_request(connection))
            connection.sendall(head)
            while not listener.is_over.wait(0.02):
                connection.sendall(drop)

        return talk

    return talk_of


def deaf(listener: Listener) -> Talk:
    """Accept a connection and read nothing."""

    def talk(connection: socket.socket) -> None:
        listener.is_over.wait(BOUND_SECONDS)

    return talk


def torn(reply: bytes = b"", *, read_bytes: int | None = None) -> Callable[[Listener], Talk]:
    """Read a request, or some bytes of it, send a reply, and close the connection."""

    def talk_of(listener: Listener) -> Talk:
        def talk(connection: socket.socket) -> None:
            if read_bytes is None:
                listener.heard.append(read_request(connection))
            else:
                _read_bytes(connection, read_bytes)
            connection.sendall(reply)

        return talk

    return talk_of


def hasty(reply: bytes) -> Callable[[Listener], Talk]:
    """Answer the beginning of a request, and read it to its end."""

    def talk_of(listener: Listener) -> Talk:
        def talk(connection: socket.socket) -> None:
            first = connection.recv(1)
            connection.sendall(reply)
            listener.heard.append(first + read_request(connection))

        return talk

    return talk_of


def _read_bytes(connection: socket.socket, count: int) -> None:
    while count > 0 and (block := connection.recv(count)):
        count -= len(block)


def read_request(connection: socket.socket) -> bytes:
    """Return a request: its head and a body of the announced length."""
    request = bytearray()
    while b"\r\n\r\n" not in request:
        if not (block := connection.recv(1 << 16)):
            return bytes(request)
        request += block
    head, _, _ = bytes(request).partition(b"\r\n\r\n")
    end = len(head) + 4 + length_of(head)
    while len(request) < end and (block := connection.recv(1 << 16)):
        request += block
    return bytes(request)


def length_of(head: bytes) -> int:
    """Return the Content-Length of a request, 0 if it has none."""
    lines = head.decode("latin-1").lower().split("\r\n")
    stated = [line.split(":")[1] for line in lines if line.startswith("content-length:")]
    return int(stated[0]) if stated else 0


def reply(text: str, *, status: str = "200 OK", headers: str = "") -> bytes:
    """Return a reply of a feedergate."""
    body = text.encode()
    head = (
        f"HTTP/1.0 {status}\r\nContent-Type: text/plain\r\nServer: feedergate_1.0\r\n"
        f"Connection: Close\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def chunk(content: bytes, **fields: object) -> Chunk:
    """Return a chunk, by default of the datasource `sample`."""
    stated: dict[str, object] = {
        "path": "chunks/00000-000.xml",
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "records": {"add": 1},
        "first_url": "http://www.example.com/a",
        "last_url": "http://www.example.com/a",
        "source": "feed.xml",
        "span": 0,
        "format": "gsa-feed",
        "datasource": "sample",
        "feedtype": "incremental",
    }
    return Chunk(**{**stated, **fields})  # type: ignore[arg-type]  # the fields of Chunk


def whole(path: Path, content: bytes, **fields: object) -> ChunkPart:
    """Write a file and return it as a whole chunk."""
    path.write_bytes(content)
    written = chunk(content, **fields)
    return ChunkPart(chunk=written, path=path, offset=0, length=len(content), sha256=written.sha256)


def certificate(folder: Path, *, days: float = 1) -> tuple[Path, Path]:
    """Write a self-signed certificate for 127.0.0.1, valid for some days, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "appliance")])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(days=9))
        .not_valid_after(datetime.now(UTC) + timedelta(days=days))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    pem, key_pem = folder / "appliance.pem", folder / "appliance.key"
    pem.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key_pem.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pem, key_pem
