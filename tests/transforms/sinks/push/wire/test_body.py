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
from transforms.sinks.push.wire.body import Body, checked, multipart, urlencoded

FEED = b"<gsafeed>\xc3\xa9</gsafeed>"
FIELDS = (("datasource", "sample"), ("feedtype", "full"))


def sent(body: Body) -> bytes:
    return b"".join(body.blocks())


def parsed(body: Body) -> list[tuple[str, bytes]]:
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
        list(checked(part))
    return str(caught.value)


def run_of(path: Path, content: bytes, *, sha256: str | None = None) -> ChunkPart:
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
        sha256=sha256,
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


def test_the_boundary_is_made_of_the_digest_of_the_file(tmp_path: Path) -> None:
    body = multipart(FIELDS, whole(tmp_path / "feed.xml", b""))
    assert body.content_type == (
        "multipart/form-data; boundary=feedferry-e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934c"
    )


def test_parts_of_a_chunk_have_boundaries_of_their_own(tmp_path: Path) -> None:
    part = run_of(tmp_path / "feed.xml", b"0123456789")
    assert multipart(FIELDS, part).content_type == (
        "multipart/form-data; boundary=feedferry-3c4d9e20bc5d6a98eb4c1664c14778028314a4116f219f17"
    )


def test_a_form_without_a_document_is_whole_too() -> None:
    assert parsed(multipart([("cleanup", "ldap")])) == [("cleanup", b"ldap")]


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


def test_an_encoded_form_has_its_type(tmp_path: Path) -> None:
    body = urlencoded([("profile", "a b")], whole(tmp_path / "data.xml", b"<a/>"))
    assert (body.content_type, sent(body)) == (
        "application/x-www-form-urlencoded",
        b"profile=a+b&data=%3Ca%2F%3E",
    )


def test_a_part_is_its_head_its_range_and_its_tail(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"2345").hexdigest()
    part = run_of(tmp_path / "feed.xml", b"0123456789", sha256=digest)
    assert b"".join(checked(part)) == b"<2345>"


def test_a_part_is_encoded_with_its_head_and_tail(tmp_path: Path) -> None:
    body = urlencoded([], run_of(tmp_path / "feed.xml", b"0123456789"))
    assert (sent(body), body.length) == (b"data=%3C2345%3E", 15)


def test_an_empty_file_is_sent(tmp_path: Path) -> None:
    assert list(checked(whole(tmp_path / "feed.xml", b""))) == []


def test_a_file_that_grew_is_sent_as_it_was(tmp_path: Path) -> None:
    part = whole(tmp_path / "feed.xml", FEED)
    part.path.write_bytes(FEED + b"more")
    assert b"".join(checked(part)) == FEED


def test_a_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    part = whole(tmp_path / "feed.xml", b"before")
    part.path.write_bytes(b"behind")
    assert refusal_of(part) == (
        f"{tmp_path}/feed.xml: changed on disk: a SHA-256 of "
        "b1b886ce5f5750a00ae3dd003702a16e4916e6830987e03094cbbf699cb0fae1; expected "
        "6db7d803e74f1ffa7d8f5adc0bf95b3e15bf4c8373fffadf546227cc6c6742cb: "
        "make the chunk again"
    )


def test_a_range_that_has_changed_is_refused(tmp_path: Path) -> None:
    part = run_of(tmp_path / "feed.xml", b"0123456789", sha256="0" * 64)
    assert refusal_of(part).startswith(f"{tmp_path}/feed.xml: changed on disk: a SHA-256 of ")


def test_a_file_that_was_torn_is_refused(tmp_path: Path) -> None:
    part = whole(tmp_path / "feed.xml", b"0123456789")
    part.path.write_bytes(b"0123456")
    assert refusal_of(part) == (
        f"{tmp_path}/feed.xml: changed on disk: 3 bytes fewer than it had; make the chunk again"
    )


def test_a_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    part = whole(tmp_path / "feed.xml", FEED)
    part.path.unlink()
    assert refusal_of(part) == (
        f"{tmp_path}/feed.xml: No such file or directory; expected a chunk that can be read"
    )


def test_the_length_of_a_file_that_is_gone_is_refused(tmp_path: Path) -> None:
    part = whole(tmp_path / "data.xml", FEED)
    part.path.unlink()
    with pytest.raises(SourceError, match="No such file or directory"):
        urlencoded([("profile", "intranet")], part)


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
