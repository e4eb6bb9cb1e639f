"""Files of clouds and of Hadoop, whose libraries and commands are played by small ones."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
import smart_open

from schemas.errors import ConfigError
from transforms.sources.tree.remote import clouds


def play_hdfs(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a command `hdfs` on PATH, before all others."""
    program = folder / "hdfs"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


Answer = Callable[[str, Any], IO[bytes]]


class AnsweredError(Exception):
    """What the library of a cloud raises: in no tree of ours, and with a status."""

    def __init__(self, words: str, status: int) -> None:
        super().__init__(words)
        self.code = status


def play_cloud(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let smart-open give what `answer` gives for a uri and a client."""

    def play(uri: str, mode: str, *, compression: str, transport_params: Any) -> IO[bytes]:
        assert (mode, compression) == ("rb", "disable")
        return answer(uri, transport_params.get("client"))

    monkeypatch.setattr(smart_open, "open", play)


def echo(uri: str, client: Any) -> IO[bytes]:
    return io.BytesIO(f"{uri} by {client}".encode())


def refuse(_uri: str, _client: Any) -> IO[bytes]:
    raise AnsweredError("it is on fire", 500)


def miss(_uri: str, _client: Any) -> IO[bytes]:
    raise AnsweredError("no such object", 404)


def read(path: str) -> bytes:
    with clouds.open_file(path) as stream:
        return stream.read()


def trouble_of(path: str) -> OSError:
    try:
        read(path)
    except OSError as exc:
        return exc
    raise AssertionError("read to its end")


def test_a_file_of_hadoop_is_what_its_command_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_hdfs(tmp_path, 'echo "$@"', monkeypatch)

    assert read("hdfs://host/a b.txt") == b"dfs -cat hdfs://host/a b.txt\n"


def test_a_large_file_of_hadoop_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_hdfs(tmp_path, "head -c 5000000 /dev/zero", monkeypatch)

    assert read("hdfs://host/a") == bytes(5_000_000)


def test_a_file_of_hadoop_is_read_from_where_it_is_sought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_hdfs(tmp_path, "printf 0123456789", monkeypatch)
    with clouds.open_file("hdfs://host/a") as stream:
        stream.seek(7)
        assert stream.read() == b"789"


def test_an_empty_file_of_hadoop_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play_hdfs(tmp_path, "exit 0", monkeypatch)

    assert read("hdfs://host/a") == b""


def test_a_file_of_hadoop_that_is_gone_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_hdfs(tmp_path, 'echo "cat: a: No such file or directory" >&2; exit 1', monkeypatch)

    assert type(trouble_of("hdfs://host/a")) is FileNotFoundError


def test_a_file_of_hadoop_that_cannot_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_hdfs(tmp_path, "echo noise >&2; echo cat: no block >&2; exit 1", monkeypatch)

    assert trouble_of("hdfs://host/a").strerror == "cat: no block"


def test_a_file_of_hadoop_that_breaks_off_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_hdfs(tmp_path, "printf 0123456789; echo cat: no block >&2; exit 1", monkeypatch)

    assert trouble_of("hdfs://host/a").strerror == (
        "the connection ended after 10 of unknown bytes"
    )


def test_a_file_of_hadoop_that_nobody_reads_on_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play_hdfs(tmp_path, "exec cat /dev/zero", monkeypatch)
    with clouds.open_file("hdfs://host/a") as stream:
        assert stream.read(3) == b"\0\0\0"


def test_a_command_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(ConfigError) as caught:
        read("hdfs://host/a")

    assert str(caught.value) == (
        "hdfs: No such file or directory; expected the command of Hadoop on PATH"
    )


def test_a_file_of_google_is_read_by_its_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    play_cloud(echo, monkeypatch)

    assert read("gs://bucket/a b?c") == b"gs://bucket/a b?c by None"


def test_a_file_of_google_is_read_from_where_it_is_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    play_cloud(echo, monkeypatch)
    with clouds.open_file("gs://bucket/a") as stream:
        stream.seek(5)
        assert stream.read() == b"bucket/a by None"


def test_a_file_of_google_that_is_gone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    play_cloud(miss, monkeypatch)

    assert type(trouble_of("gs://bucket/a")) is FileNotFoundError


def test_a_file_of_google_that_cannot_be_opened_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    play_cloud(refuse, monkeypatch)

    assert trouble_of("gs://bucket/a").strerror == "it is on fire"


def test_a_file_of_azure_is_read_by_a_client_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    play_cloud(echo, monkeypatch)
    clients = SimpleNamespace(from_connection_string=lambda stated: f"client of {stated}")
    library = SimpleNamespace(BlobServiceClient=clients)
    monkeypatch.setitem(sys.modules, "azure.storage.blob", library)
    monkeypatch.setenv(clouds.CONNECTION, "AccountName=a")

    assert read("azfs://account/container/b/c") == (
        b"azure://container/b/c by client of AccountName=a"
    )


def test_azure_without_a_connection_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(clouds.CONNECTION, raising=False)

    with pytest.raises(ConfigError) as caught:
        read("azfs://account/container/b")

    assert str(caught.value) == (
        "azfs://account/container/b: AZURE_STORAGE_CONNECTION_STRING is not set; "
        "expected how to connect to Azure"
    )
