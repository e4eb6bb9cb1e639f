"""Files of trees that Beam lists: Google's and Azure's by smart-open, HDFS's by the `hdfs` command.

Their libraries find credentials by themselves; Azure's in `AZURE_STORAGE_CONNECTION_STRING`.
"""

import importlib
import os
import subprocess
import tempfile
from contextlib import ExitStack
from functools import partial
from typing import IO, cast

import smart_open

from schemas.errors import ConfigError
from transforms.sources.tree.remote.stream import Body, broken, gone, open_stream

CONNECTION = "AZURE_STORAGE_CONNECTION_STRING"

_EVERYTHING = (Exception,)  # each of the libraries has a tree of exceptions of its own


def open_file(path: str) -> IO[bytes]:
    """Open a file; raise OSError where that cannot be done."""
    fetch = _FETCHES[path.partition("://")[0].lower()]
    return open_stream(path, partial(fetch, path), died=_EVERYTHING)


def _fetch_from_google(path: str, offset: int) -> Body:
    return _fetch(path, path, offset)


def _fetch_from_azure(path: str, offset: int) -> Body:
    """Open by the words of smart-open, whose uris have no account."""
    stated = os.environ.get(CONNECTION)
    if not stated:
        raise ConfigError(f"{path}: {CONNECTION} is not set; expected how to connect to Azure")
    blobs = importlib.import_module("azure.storage.blob")
    client = blobs.BlobServiceClient.from_connection_string(stated)
    place = path.partition("://")[2].partition("/")[2]
    return _fetch(path, f"azure://{place}", offset, client=client)


def _fetch(path: str, uri: str, offset: int, **params: object) -> Body:
    try:
        stream = smart_open.open(uri, "rb", compression="disable", transport_params=params)
        stream.seek(offset)
    except _EVERYTHING as exc:
        status = getattr(exc, "code", getattr(exc, "status_code", None))
        raise (gone(path) if status == 404 else broken(path, str(exc))) from exc
    return Body(stream, None, "")


def _fetch_from_hdfs(path: str, offset: int) -> Body:
    program = _Cat(path)
    while offset and (block := program.read(offset)):
        offset -= len(block)
    return Body(program, None, "")


class _Cat:
    """What `hdfs dfs -cat` writes; smart-open takes one that went wrong for an empty file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._ahead = b""
        with ExitStack() as opened:
            self._errors = opened.enter_context(tempfile.TemporaryFile())
            self._program = opened.enter_context(_start(path, self._errors))
            self._output = cast(IO[bytes], self._program.stdout)
            self._ahead = self.read(1)
            self._opened = opened.pop_all()

    def read(self, size: int, /) -> bytes:
        block, self._ahead = self._ahead, b""
        block += self._output.read(size - len(block))
        if not block and self._program.wait():
            raise self._cause()
        return block

    def close(self) -> None:
        self._program.terminate()
        self._opened.close()

    def _cause(self) -> OSError:
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()
        is_gone = "No such file or directory" in said
        return gone(self._path) if is_gone else broken(self._path, said.rpartition("\n")[2])


def _start(path: str, errors: IO[bytes]) -> "subprocess.Popen[bytes]":
    command = ["hdfs", "dfs", "-cat", path]
    try:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        )
    except OSError as exc:
        raise ConfigError(f"hdfs: {exc.strerror}; expected the command of Hadoop on PATH") from exc


_FETCHES = {"gs": _fetch_from_google, "azfs": _fetch_from_azure, "hdfs": _fetch_from_hdfs}
