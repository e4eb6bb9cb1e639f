"""Trees on SFTP servers, by sessions that only talk to servers whose host key is known.

A uri is `sftp://user@host:port/path`, the path percent-encoded; `/~/` at its beginning is the
folder that the server puts its user in. Host name, port, user and keys are looked up in
`~/.ssh/config`, host keys in `~/.ssh/known_hosts`, to which none is ever added. A password may
stand in `FEEDFERRY_SFTP_PASSWORD`.

Names as bytes, and many reads at once without a thread for each, are had by methods that paramiko
keeps to itself; they have been the same for many years, and tests tell when they are not.
"""

import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import IO
from urllib.parse import quote, unquote_to_bytes

import paramiko  # type: ignore[import-untyped]  # it has no types of its own
from paramiko.sftp import (  # type: ignore[import-untyped]  # the same
    CMD_CLOSE,
    CMD_OPENDIR,
    CMD_READ,
    CMD_READDIR,
    CMD_REALPATH,
    CMD_STATUS,
    int64,
)

from schemas.errors import SourceError
from transforms.sources.listing import Kind
from transforms.sources.tree.remote.listing import (
    Remote,
    filtered,
    in_order,
    rejected,
    walk_folders,
    words_of,
)
from transforms.sources.tree.remote.ssh import DIED, ask, is_answer
from transforms.sources.tree.remote.stream import (
    BUFFER_BYTES,
    Body,
    broken,
    gone,
    open_stream,
    refused,
)
from transforms.sources.tree.tree import Tree

_BLOCK_BYTES = 1 << 15  # what a server gives in one answer
_SAFE = "/!$&'()*+,;=:@"


class Folder:
    """The files below a folder of a server."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._authority, self._top = _parse(tree.root)

    def list(self) -> Iterator[Remote]:
        """Yield all of them, in order; raise SourceError where the root cannot be listed."""
        root = self._tree.root
        try:
            top = self._descend(Remote(key="", path=root))
        except OSError as exc:
            reason = f"{words_of(exc)}; expected a folder that can be listed"
            raise SourceError(f"{root}: {reason}") from exc
        yield from walk_folders(self._tree, top, self._descend)

    def find(self, key: str) -> Remote | None:
        try:
            said = ask(self._authority, lambda sftp: sftp.stat(self._path(key)))
        except FileNotFoundError:
            return None
        return self._sighted(key, said)

    def _descend(self, above: Remote) -> Iterator[Remote]:
        return ask(self._authority, lambda sftp: in_order(self._children(sftp, above.key)))

    def _children(self, sftp: paramiko.SFTPClient, above: str) -> Iterator[Remote]:
        for name, said in _read_folder(sftp, self._path(above)):
            try:
                key = above + name.decode()
            except UnicodeDecodeError:
                yield self._unnamed(above, name)
                continue
            is_link = stat.S_ISLNK(said.st_mode or 0)
            yield self._linked(sftp, key) if is_link else self._sighted(key, said)

    def _unnamed(self, above: str, name: bytes) -> Remote:
        key = above + name.decode(errors="backslashreplace")
        reason = f"{name!r} is not UTF-8; expected a name that is"
        return rejected(key, self._uri(above) + quote(name), "file-name", reason)

    def _linked(self, sftp: paramiko.SFTPClient, key: str) -> Remote:
        if not self._tree.follows_links:
            return filtered(key, self._uri(key), "symlink")
        try:
            said = sftp.stat(self._path(key))
            if stat.S_ISDIR(said.st_mode or 0) and self._is_loop(sftp, key):
                return filtered(key, self._uri(key), "symlink-loop")
        except OSError as exc:
            if not is_answer(sftp, exc):
                raise
            reason = f"a link, and where it leads: {words_of(exc)}; expected a file there"
            return rejected(key, self._uri(key), "broken-link", reason)
        return self._sighted(key, said)

    def _is_loop(self, sftp: paramiko.SFTPClient, key: str) -> bool:
        """Whether a link leads to one of the folders that it stands in."""
        parts = key.split("/")[:-1]
        above = ("/".join(parts[:depth]) for depth in range(len(parts) + 1))
        real = _real(sftp, self._path(key))
        return any(_real(sftp, self._path(one)) == real for one in above)

    def _sighted(self, key: str, said: paramiko.SFTPAttributes) -> Remote:
        mode = said.st_mode or stat.S_IFREG
        if stat.S_ISDIR(mode):
            return Remote(key=f"{key}/", path=self._uri(key), kind=Kind.FOLDER)
        if not stat.S_ISREG(mode):
            return filtered(key, self._uri(key), "no-file")
        modified_ns = None if said.st_mtime is None else said.st_mtime * 1_000_000_000
        return Remote(key=key, path=self._uri(key), size=said.st_size, modified_ns=modified_ns)

    def _uri(self, key: str) -> str:
        quoted = quote(key, safe=_SAFE).replace("~", "%7E")  # which is not the home folder
        return f"{self._tree.root}/{quoted}"

    def _path(self, key: str) -> bytes:
        below = b"/" + key.removesuffix("/").encode()
        return self._top.rstrip(b"/") + below if key else self._top


connect = Folder


def open_file(path: str) -> IO[bytes]:
    """Open a file; raise OSError where that cannot be done, SourceError without a session."""
    authority, raw = _parse(path)

    def fetch(offset: int) -> Body:
        try:
            return ask(authority, lambda sftp: _open(sftp, raw, offset))
        except FileNotFoundError as exc:
            raise gone(path) from exc
        except PermissionError as exc:
            raise refused(path) from exc
        except OSError as exc:
            raise broken(path, words_of(exc)) from exc

    return open_stream(path, fetch, died=DIED)


class _Window:
    """Asks for some blocks at once: one alone would wait for the way to the server and back.

    Paramiko does so as well, but by a thread for each read, and all of a file at once.
    """

    def __init__(self, sftp: paramiko.SFTPClient, file: paramiko.SFTPFile, offset: int) -> None:
        self._sftp = sftp
        self._file = file
        self._at = offset
        self._answers: dict[int, tuple[int, paramiko.Message]] = {}

    def read(self, size: int, /) -> bytes:
        """Return the next bytes: fewer where the server gives fewer, none at the end."""
        end = self._at + min(size, BUFFER_BYTES)
        asked = {self._ask(at, end): at for at in range(self._at, end, _BLOCK_BYTES)}
        while len(self._answers) < len(asked):
            self._sftp._read_response()
        answers, self._answers = self._answers, {}
        blocks = []
        for number, at in asked.items():
            if at != self._at:  # the block before was short
                break
            blocks.append(self._block(*answers[number]))
            self._at += len(blocks[-1])
        return b"".join(blocks)

    def close(self) -> None:
        self._file.close()

    def _ask(self, at: int, end: int) -> int:
        size = min(_BLOCK_BYTES, end - at)
        number: int = self._sftp._async_request(self, CMD_READ, self._file.handle, int64(at), size)
        return number

    def _async_response(self, kind: int, said: paramiko.Message, number: int) -> None:
        """Take an answer, when paramiko has one for us."""
        self._answers[number] = kind, said

    def _block(self, kind: int, said: paramiko.Message) -> bytes:
        if kind == CMD_STATUS:
            with suppress(EOFError):
                self._sftp._convert_status(said)
            return b""
        block: bytes = said.get_binary()
        return block


def _open(sftp: paramiko.SFTPClient, path: bytes, offset: int) -> Body:
    file = sftp.open(path, "rb")
    said = file.stat()
    return Body(_Window(sftp, file, offset), said.st_size, f"{said.st_size} {said.st_mtime}")


def _parse(uri: str) -> tuple[str, bytes]:
    """Return who is asked, and the path."""
    authority, _, path = uri.partition("://")[2].partition("/")
    is_home = path == "~" or path.startswith("~/")
    return authority, unquote_to_bytes(f".{path[1:]}" if is_home else f"/{path}")


def _real(sftp: paramiko.SFTPClient, path: bytes) -> bytes:
    _, said = sftp._request(CMD_REALPATH, path)
    said.get_int()
    real: bytes = said.get_binary()
    return real


def _read_folder(
    sftp: paramiko.SFTPClient, path: bytes
) -> Iterator[tuple[bytes, paramiko.SFTPAttributes]]:
    """Yield names as bytes: paramiko's own listing ends at the first that is not UTF-8."""
    _, said = sftp._request(CMD_OPENDIR, path)
    handle = said.get_binary()
    while True:
        try:
            _, said = sftp._request(CMD_READDIR, handle)
        except EOFError:  # what the server answers behind the last name
            break
        for _ in range(said.get_int()):
            name, _ = said.get_binary(), said.get_binary()
            attributes = paramiko.SFTPAttributes._from_msg(said)
            if name not in (b".", b".."):
                yield name, attributes
    sftp._request(CMD_CLOSE, handle)
