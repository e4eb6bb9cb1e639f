"""Bodies of requests, and the files in them."""

import hashlib
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multipart import MultipartSegment, PushMultipartParser

from schemas.errors import SourceError
from support.appliance_sockets import chunk, whole
from transforms.sinks.push.model import ChunkPart
from transforms.sinks.push.wire import body as bodies
from transforms.sinks.push.wire.body import RequestBody, multipart, urlencoded, verified_blocks

FEED = b"<gsafeed>\xc3\xa9</gsafeed>"
FIELDS = (("datasource", "sample"), ("feedtype", "full"))


def sent(body: RequestBody) -> bytes:
    return b"".join(body.blocks())


def parsed(body: RequestBody) -> list[tuple[str, bytes]]:
    """The fields of a form, as a server reads them."""
    boundary = body.content_type.partition("boundary=")[2]
    found: list[tuple[str, bytes]] = []
    with PushMultipartParser(boundary, content_length=body.length, strict=True) as parser:
        for event in parser.parse(sent(body)):
            if isinstance(event, MultipartSegment):
                found.append((event.name, b""))
            elif event:
                found[-1] = (found[-1][0], found[-1][1] + bytes(event))
    return found


def refusal_of(part: ChunkPart) -> str:
    with pytest.raises(SourceError) as caught:
        list(verified_blocks(part))
    return str(caught.value)


def run_of(path: Path, content: bytes) -> ChunkPart:
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
    boundary = b"feedferry-3c21355fb7cfa5fe25b475ea778b3e6b299f274cc9fc46d6"
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
    part = run_of(tmp_path / "feed.xml", b"0123456789")
    assert multipart(FIELDS, part).content_type == (
        "multipart/form-data; boundary=feedferry-3c4d9e20bc5d6a98eb4c1664c14778028314a4116f219f17"
    )


@given(st.binary(max_size=300), st.text("abc_-", max_size=9))
def test_a_form_is_read_back_as_it_was(content: bytes, name: str) -> None:
    with TemporaryDirectory() as folder:
        part = whole(Path(folder) / "feed.xml", content)
        body = multipart([("datasource", name), ("feedtype", "full")], part)
        assert parsed(body) == [
            ("datasource", name.encode()),
            ("feedtype", b"full"),
            ("data", content),
        ]


@given(st.binary(max_size=300), st.text(max_size=9))
def test_an_encoded_form_is_read_back_as_it_was(content: bytes, profile: str) -> None:
    with TemporaryDirectory() as folder:
        part = whole(Path(folder) / "data.xml", content)
        query = sent(urlencoded([("profile", profile)], part)).decode("ascii")
        found = parse_qsl(query, keep_blank_values=True, encoding="latin-1")
        assert [value.encode("latin-1") for _, value in found] == [profile.encode(), content]


@given(st.binary(max_size=300), st.text(max_size=9))
def test_lengths_are_exact(content: bytes, value: str) -> None:
    with TemporaryDirectory() as folder:
        part = whole(Path(folder) / "data.xml", content)
        forms = (multipart([("a", value)], part), urlencoded([("a", value)], part))
        assert [form.length for form in forms] == [len(sent(form)) for form in forms]


def test_a_part_is_its_head_its_range_and_its_tail(tmp_path: Path) -> None:
    part = run_of(tmp_path / "feed.xml", b"0123456789")
    assert b"".join(verified_blocks(part)) == b"<2345>"


def test_a_part_is_encoded_with_its_head_and_tail(tmp_path: Path) -> None:
    body = urlencoded([], run_of(tmp_path / "feed.xml", b"0123456789"))
    assert (sent(body), body.length) == (b"data=%3C2345%3E", 15)


def test_an_empty_file_is_sent(tmp_path: Path) -> None:
    assert list(verified_blocks(whole(tmp_path / "feed.xml", b""))) == []


def test_a_file_that_grew_is_sent_as_it_was(tmp_path: Path) -> None:
    part = whole(tmp_path / "feed.xml", FEED)
    part.path.write_bytes(FEED + b"more")
    assert b"".join(verified_blocks(part)) == FEED


def test_the_end_of_a_changed_file_does_not_go_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BLOCK_BYTES", 4)
    part = whole(tmp_path / "feed.xml", b"0123456789")
    part.path.write_bytes(b"x123456789")
    blocks = multipart([], part).blocks()
    gone_out = [next(blocks) for _ in range(3)]
    with pytest.raises(SourceError):
        next(blocks)
    assert gone_out[1:] == [b"x123", b"4567"]


def test_a_body_that_is_not_read_to_its_end_closes_its_file(tmp_path: Path) -> None:
    blocks = multipart(FIELDS, whole(tmp_path / "feed.xml", FEED)).blocks()
    next(blocks)
    next(blocks)
    blocks.close()
    assert list(blocks) == []


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (
            b"behind",
            "changed on disk: SHA-256 "
            "b1b886ce5f5750a00ae3dd003702a16e4916e6830987e03094cbbf699cb0fae1; expected "
            "6db7d803e74f1ffa7d8f5adc0bf95b3e15bf4c8373fffadf546227cc6c6742cb: "
            "convert again to make the chunk anew",
        ),
        (
            b"bef",
            "changed on disk: 3 bytes missing; expected 6: convert again to make the chunk anew",
        ),
        (None, "No such file or directory; expected a readable chunk file"),
    ],
)
def test_a_file_that_has_changed_is_refused(
    tmp_path: Path, content: bytes | None, found: str
) -> None:
    part = whole(tmp_path / "feed.xml", b"before")
    part.path.unlink()
    if content is not None:
        part.path.write_bytes(content)

    assert refusal_of(part) == f"{tmp_path}/feed.xml: {found}"


def test_a_range_that_has_changed_is_refused(tmp_path: Path) -> None:
    part = run_of(tmp_path / "feed.xml", b"0123456789")
    part.path.write_bytes(b"01234x6789")

    assert refusal_of(part).startswith(f"{tmp_path}/feed.xml: changed on disk: SHA-256 ")
