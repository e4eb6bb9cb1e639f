"""Bodies of requests, and the files in them."""

import base64
import hashlib
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from multipart import MultipartSegment, PushMultipartParser

from feedferry.schemas.errors import SourceError
from feedferry.transforms.sinks.push.model import ChunkPart
from feedferry.transforms.sinks.push.wire.body import (
    RequestBody,
    encode,
    encoded_length,
    multipart,
    urlencoded,
    verified_blocks,
)
from support.appliance_sockets import chunk, whole

FEED = b"<gsafeed>\xc3\xa9</gsafeed>"
FIELDS = (("datasource", "sample"), ("feedtype", "full"))


def sent(body: RequestBody) -> bytes:
    return b"".join(body.blocks())


def parsed(body: RequestBody) -> list[tuple[str, bytes]]:
    """The fields of a form, as a server reads them."""
    boundary = body.content_type.partition("boundary=")[2]
    fields: list[tuple[str, bytes]] = []
    with PushMultipartParser(boundary, content_length=body.length, strict=True) as parser:
        for event in parser.parse(sent(body)):
            if isinstance(event, MultipartSegment):
                fields.append((event.name, b""))
            elif event:
                fields[-1] = (fields[-1][0], fields[-1][1] + bytes(event))
    return fields


def parsed_query(query: bytes) -> list[tuple[str, bytes]]:
    """The fields of an encoded form, as a server reads them."""
    pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, encoding="latin-1")
    return [(name, value.encode("latin-1")) for name, value in pairs]


def range_of(path: Path, content: bytes) -> ChunkPart:
    """Records 3 and 4 of a chunk, which are its bytes 2 to 6."""
    path.write_bytes(content)
    return ChunkPart(
        chunk=chunk(content),
        path=path,
        offset=2,
        length=4,
        head=b"<",
        tail=b">",
        first=3,
        count=2,
        sha256=hashlib.sha256(content[2:6]).hexdigest(),
    )


def test_a_form_is_as_the_adaptor_library_sends_it(tmp_path: Path) -> None:
    body = multipart(FIELDS, whole(tmp_path / "feed.xml", FEED))
    boundary = b"feedferry-29da8aa0ad4ce8dd422a154363ef5d977cbcf663d2c81533"
    assert sent(body) == (
        b"--" + boundary + b'\r\nContent-Disposition: form-data; name="datasource"\r\n'
        b"Content-Type: text/plain\r\n\r\nsample\r\n"
        b"--" + boundary + b'\r\nContent-Disposition: form-data; name="feedtype"\r\n'
        b"Content-Type: text/plain\r\n\r\nfull\r\n"
        b"--" + boundary + b'\r\nContent-Disposition: form-data; name="data"\r\n'
        b"Content-Type: text/xml\r\n\r\n<gsafeed>\xc3\xa9</gsafeed>\r\n"
        b"--" + boundary + b"--\r\n"
    )


def test_parts_of_a_chunk_have_boundaries_of_their_own(tmp_path: Path) -> None:
    part = range_of(tmp_path / "feed.xml", b"0123456789")
    assert multipart(FIELDS, part).content_type == (
        "multipart/form-data; boundary=feedferry-eb762980125e40e2b14f25d3a94b5fde92118cf19f4dbab2"
    )


@given(st.binary(max_size=300), st.text("abc_-", max_size=9), st.text(max_size=9))
def test_forms_are_read_back_as_they_were(content: bytes, name: str, profile: str) -> None:
    with TemporaryDirectory() as folder:
        part = whole(Path(folder) / "feed.xml", content)
        form = multipart([("datasource", name), ("feedtype", "full")], part)
        encoded = urlencoded([("profile", profile)], part)
        assert parsed(form) == [
            ("datasource", name.encode()),
            ("feedtype", b"full"),
            ("data", content),
        ]
        assert parsed_query(sent(encoded)) == [("profile", profile.encode()), ("data", content)]
        assert [body.length for body in (form, encoded)] == [len(sent(form)), len(sent(encoded))]


def test_a_part_is_its_head_its_range_and_its_tail(tmp_path: Path) -> None:
    part = range_of(tmp_path / "feed.xml", b"0123456789")
    body = urlencoded([], part)

    assert b"".join(verified_blocks(part)) == b"<2345>"
    assert (sent(body), body.length) == (b"data=%3C2345%3E", 15)


def test_a_file_that_grew_is_sent_as_it_was(tmp_path: Path) -> None:
    part = whole(tmp_path / "feed.xml", FEED)
    part.path.write_bytes(FEED + b"more")
    assert b"".join(verified_blocks(part)) == FEED


@pytest.mark.parametrize("position", range(10))
def test_the_last_block_of_a_changed_file_is_not_sent(tmp_path: Path, position: int) -> None:
    part = whole(tmp_path / "feed.xml", b"0123456789")
    changed = b"0123456789"[:position] + b"x" + b"0123456789"[position + 1 :]
    part.path.write_bytes(changed)
    blocks = verified_blocks(part, block_bytes=4)

    assert [next(blocks), next(blocks)] == [changed[:4], changed[4:8]]
    with pytest.raises(SourceError):
        next(blocks)
    assert list(blocks) == []


@pytest.mark.parametrize("length", range(6))
def test_a_file_that_was_cut_off_is_not_sent_to_its_end(tmp_path: Path, length: int) -> None:
    part = range_of(tmp_path / "feed.xml", b"0123456789")
    part.path.write_bytes(b"0123456789"[:length])
    received: list[bytes] = []
    with pytest.raises(SourceError, match="bytes missing; expected 4"):
        received.extend(verified_blocks(part, block_bytes=1))

    assert b"".join(received) == b"<" + b"2345"[: max(length - 2, 0)]


@pytest.mark.parametrize("block_bytes", [1, 3, 4, 7, 100])
def test_blocks_of_any_size_are_the_same_document(tmp_path: Path, block_bytes: int) -> None:
    part = range_of(tmp_path / "feed.xml", b"0123456789")
    assert b"".join(verified_blocks(part, block_bytes=block_bytes)) == b"<2345>"


def test_an_error_of_the_file_ends_the_body_and_its_thread(tmp_path: Path) -> None:
    threads = threading.active_count()
    unreadable = Path("/proc/self/mem")  # opens, but has nothing at its begin
    part = replace(whole(tmp_path / "feed.xml", FEED), path=unreadable)
    with pytest.raises(SourceError, match="/proc/self/mem: Input/output error"):
        list(verified_blocks(part))

    assert threading.active_count() == threads


def test_a_body_that_is_not_read_to_its_end_has_no_thread_left(tmp_path: Path) -> None:
    threads = threading.active_count()
    blocks = verified_blocks(whole(tmp_path / "feed.xml", FEED * 100), block_bytes=4)
    next(blocks)
    blocks.close()
    assert threading.active_count() == threads


def test_a_body_that_is_not_read_to_its_end_closes_its_file(tmp_path: Path) -> None:
    blocks = multipart(FIELDS, whole(tmp_path / "feed.xml", FEED)).blocks()
    next(blocks)
    next(blocks)
    blocks.close()
    assert list(blocks) == []


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        (
            b"behind",
            "SHA-256 "
            "b1b886ce5f5750a00ae3dd003702a16e4916e6830987e03094cbbf699cb0fae1; expected "
            "6db7d803e74f1ffa7d8f5adc0bf95b3e15bf4c8373fffadf546227cc6c6742cb: "
            "the file was changed; convert again to make the chunk anew",
        ),
        (
            b"bef",
            "3 bytes missing; expected 6: the file was changed; convert again to make the chunk "
            "anew",
        ),
        (None, "No such file or directory; expected a readable chunk file"),
    ],
)
def test_a_file_that_has_changed_is_refused(
    tmp_path: Path, content: bytes | None, finding: str
) -> None:
    part = whole(tmp_path / "feed.xml", b"before")
    part.path.unlink()
    if content is not None:
        part.path.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        list(verified_blocks(part))

    assert str(caught.value) == f"{tmp_path}/feed.xml: {finding}"


# Encoded values


@pytest.mark.parametrize(
    "block", [bytes(range(256)), base64.b64encode(bytes(range(256)) * 300)], ids=len
)
def test_every_byte_of_every_slice_is_read_back(block: bytes) -> None:
    assert parsed_query(b"data=" + encode(block)) == [("data", block)]


@given(st.binary(max_size=200), st.integers(0, 200))
def test_a_document_may_be_cut_anywhere(block: bytes, cut: int) -> None:
    assert encode(block[:cut]) + encode(block[cut:]) == encode(block)
    assert encoded_length(block) == len(encode(block))
