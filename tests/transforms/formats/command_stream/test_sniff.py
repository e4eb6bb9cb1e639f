"""Recognition of the three command streams by their first bytes."""

import pytest

from transforms.formats import sniff
from transforms.formats.command_stream.sniff import sniff_stream

HEADER = b"GSA Adaptor Data Version 1 [\n]\n"
BODIES = {
    "lister-stream": (
        *(
            b"",
            b"id=a",
            b"id=a\nid=b\nlock\n",
            b"id=a\nlast-modified=5\n",
            b"id=a\nresult-link=x\n",
        ),
        *(b"id-list\ncontent\nacl\nauthz-status=PERMIT\n", b"id=a\ndelete\nmeta-name=b\n"),
        *(b"id=a\nid=b\nmeta-name=b\n", b"what\nid=a\nwhat=content\n"),
        b"id=a\ncrawl-immediately\nmeta-name=Department\n",
    ),
    "retriever-stream": (
        *(b"id=a\ncontent\nid=b\nid=c\nauthz-status=x", b"id=a\nup-to-date", b"id=a\nnot-found"),
        *(b"id=a\nlast-modified=5\nmime-type=text/plain\n", b"id=a\nlock=true\nacl\n"),
        *(b"id-list\na\n\ncontent\n", b"id=a\r\ncontent\r\n", b"id=a\nmeta-name=b"),
    ),
    "authorizer-stream": (
        *(b"id=a\nauthz-status=PERMIT\n", b"id=a\nid=b\nauthz-status=DENY", b"group=a\nid=a\n"),
        *(b"user=a\npassword=b\nid=a\n", b"username=a\nid=a\n"),
        b"id-list\na\nb\n\nauthz-status=PERMIT",
    ),
}


@pytest.mark.parametrize(
    ("body", "name"), [(body, name) for name, bodies in BODIES.items() for body in bodies]
)
def test_a_command_of_only_one_stream_decides(body: bytes, name: str) -> None:
    assert sniff_stream(HEADER + body) == name


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b"-e ", b"\n "])
def test_bytes_of_editors_and_shells_before_the_header_are_skipped(before: bytes) -> None:
    assert sniff_stream(before + HEADER + b"id=a") == "lister-stream"


@pytest.mark.parametrize("delimiter", [b"\0", b"\xc0\x80", b"**", b"\xc3\xa9"])
def test_any_delimiter_is_accepted(delimiter: bytes) -> None:
    mark = delimiter.replace(b"\xc0\x80", b"\0")
    head = b"GSA Adaptor Data Version 1 [" + delimiter + b"]" + mark + b"id=a" + mark + b"content"
    assert sniff_stream(head) == "retriever-stream"


@pytest.mark.parametrize(
    "head",
    [
        *(b"", b"<gsafeed>", b"GSA Adaptor Data Version 1 []", b"GSA Adaptor Data Version 1 [\n"),
        *(b"x" + HEADER, b" " * 1_000_000),
    ],
)
def test_a_stream_without_a_header_is_not_a_command_stream(head: bytes) -> None:
    assert sniff_stream(head) is None


def test_a_command_stream_is_found_among_all_formats() -> None:
    assert sniff(HEADER + b"id=a\ncontent\n<gsafeed>") == "retriever-stream"
