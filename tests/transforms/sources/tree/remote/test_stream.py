"""Streams of remote files: to their end, or not at all."""

import io
from collections.abc import Callable

import pytest

from transforms.sources.tree.remote.stream import Body, broken, gone, open_stream, refused

TEXT = b"one two three four five"
Fetch = Callable[[int], Body]


class DiedError(Exception):
    """What a library raises when its connection has died."""


class Wire:
    """A connection that gives so many bytes and then ends, or dies."""

    def __init__(self, text: bytes, *, dies: bool = False) -> None:
        self._stream = io.BytesIO(text)
        self._dies = dies

    def read(self, size: int, /) -> bytes:
        block = self._stream.read(size)
        if self._dies and not block:
            raise DiedError
        return block

    def close(self) -> None:
        self._stream.close()


def whole(offset: int) -> Body:
    return Body(Wire(TEXT[offset:]), len(TEXT), "1")


def of_unknown_size(offset: int) -> Body:
    return Body(Wire(TEXT[offset:]), None, "1")


def short(length: int, *, dies: bool = False, version: str = "1") -> Fetch:
    """Give no more than some bytes each time that the file is opened."""

    def fetch(offset: int) -> Body:
        return Body(Wire(TEXT[offset:length], dies=dies), len(TEXT), version)

    return fetch


def mended(*, version: str = "1") -> Fetch:
    """Break off the first time, and not the second."""
    lengths = iter((9, len(TEXT)))
    versions = iter(("1", version))

    def fetch(offset: int) -> Body:
        return Body(Wire(TEXT[offset : next(lengths)], dies=True), len(TEXT), next(versions))

    return fetch


def read(fetch: Fetch) -> bytes:
    with open_stream("sftp://host/a", fetch, died=(DiedError,)) as stream:
        return stream.read()


def trouble_of(fetch: Fetch) -> OSError:
    try:
        read(fetch)
    except OSError as exc:
        return exc
    raise AssertionError("read to its end")


@pytest.mark.parametrize("fetch", [whole, of_unknown_size])
def test_a_file_is_read_to_its_end(fetch: Fetch) -> None:
    assert read(fetch) == TEXT


def test_a_file_is_read_bit_by_bit() -> None:
    with open_stream("sftp://host/a", whole, died=(DiedError,)) as stream:
        assert (stream.read(4), stream.read(4), stream.read(99)) == (b"one ", b"two ", TEXT[8:])


@pytest.mark.parametrize("dies", [False, True])
def test_a_file_that_ends_before_its_promised_length_raises(dies: bool) -> None:
    trouble = trouble_of(short(9, dies=dies))

    assert trouble.strerror == "the connection ended after 9 of 23 bytes"
    assert trouble.filename == "sftp://host/a"


def test_a_connection_that_dies_is_opened_again_where_it_was() -> None:
    assert read(mended()) == TEXT


def test_a_file_that_was_changed_meanwhile_is_not_put_together_of_two() -> None:
    assert trouble_of(mended(version="2")).strerror == "changed while it was read"


def test_a_file_whose_version_nobody_tells_is_not_opened_again() -> None:
    trouble = trouble_of(short(9, dies=True, version=""))

    assert trouble.strerror == "the connection ended after 9 of 23 bytes"


def test_a_connection_that_dies_in_a_file_of_unknown_length_raises() -> None:
    def fetch(offset: int) -> Body:
        return Body(Wire(TEXT[offset:9], dies=True), None, "1")

    assert trouble_of(fetch).strerror == "the connection ended after 9 of unknown bytes"


def test_a_file_that_is_longer_than_promised_ends_where_it_was_promised_to() -> None:
    def fetch(offset: int) -> Body:
        return Body(Wire(TEXT[offset:]), 7, "1")

    assert read(fetch) == b"one two"


def test_a_file_is_read_from_where_it_is_sought() -> None:
    with open_stream("sftp://host/a", whole, died=(DiedError,)) as stream:
        stream.seek(4)
        assert stream.read(3) == b"two"


def test_a_file_is_sought_from_its_end() -> None:
    with open_stream("sftp://host/a", whole, died=(DiedError,)) as stream:
        stream.seek(-4, io.SEEK_END)
        assert stream.read() == b"five"


def test_the_end_of_a_file_of_unknown_length_cannot_be_sought() -> None:
    with (
        open_stream("sftp://host/a", of_unknown_size, died=(DiedError,)) as stream,
        pytest.raises(io.UnsupportedOperation) as caught,
    ):
        stream.seek(0, io.SEEK_END)

    assert str(caught.value) == "the end of a file of unknown size"


def test_nothing_is_read_behind_the_end() -> None:
    with open_stream("sftp://host/a", whole, died=(DiedError,)) as stream:
        stream.seek(99)
        assert stream.read() == b""


def test_a_place_is_told() -> None:
    with open_stream("sftp://host/a", whole, died=(DiedError,)) as stream:
        stream.read(4)
        assert stream.tell() == 4


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (gone("sftp://host/a"), "No such file or directory"),
        (refused("sftp://host/a"), "Permission denied"),
        (refused("sftp://host/a", "403 Forbidden"), "403 Forbidden"),
        (broken("sftp://host/a", "it is full"), "it is full"),
    ],
)
def test_a_trouble_has_words_and_a_path(trouble: OSError, words: str) -> None:
    assert (trouble.strerror, trouble.filename) == (words, "sftp://host/a")
