"""Feeds that declare another encoding than they are in."""

import json
from base64 import b64decode
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, cast

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.transforms.formats.xml.scanning.encoding import Transcoded
from support.archives import document, documents, gsa_feed, put
from support.runs import chunks, convert, report
from support.spools import HandSpool

TO_JSONL = ("-o", "out", "--to", "jsonl")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


def declared(encoding: str, text: bytes) -> bytes:
    return text.replace(b"UTF-8", encoding.encode())


def feed_of(text: str) -> bytes:
    """A feed in UTF-8 of which one document has a text."""
    return gsa_feed(document(1, text=text))


def contents() -> list[Any]:
    """The contents that were read, as JSON has them."""
    lines = (line for chunk in chunks("out") for line in chunk.splitlines())
    return [json.loads(line)["content"]["data"] for line in lines]


def notice() -> Any:  # what JSON holds
    return report("out")["account"]["notices"].get("encoding-doubtful")


@pytest.mark.parametrize("encoding", ["ISO-8859-1", "windows-1252", "iso-8859-15"])
def test_utf_8_under_a_latin_declaration_is_a_notice_with_its_first_place(encoding: str) -> None:
    text = declared(encoding, feed_of("Zürich, Genève"))
    source = put(Path("a.xml"), text)

    assert convert(source, *TO_JSONL) == 0
    first = notice()["first"]
    assert (notice()["count"], first["source"]) == (1, "a.xml")
    assert first["offset"] == text.index("ü".encode())
    assert first["detail"].endswith("read as declared: --encoding utf-8 reads it as UTF-8")


def test_positions_after_the_first_block_count_from_the_start() -> None:
    text = declared("ISO-8859-1", gsa_feed(*documents(1, 30_000), document(1, text="Zürich")))
    source = put(Path("a.xml"), text)

    assert convert(source, *TO_JSONL) == 0
    assert notice()["first"]["offset"] == text.index("ü".encode())


@pytest.mark.parametrize("text", ["Zürich", "Ä Ö Ü", "naïve façade – ¿qué?", "plain"])
def test_latin_text_under_its_declaration_is_no_notice(text: str) -> None:
    encoded = declared("windows-1252", feed_of(text)).decode().encode("cp1252")
    source = put(Path("a.xml"), encoded)

    assert convert(source, *TO_JSONL) == 0
    assert notice() is None


@pytest.mark.parametrize("encoding", ["ISO-8859-1", "iso-8859-15"])
@pytest.mark.parametrize("text", ["Tom’s", "Zürich’ – Genève", "è’"])
def test_windows_1252_under_iso_8859_is_a_notice_with_its_cure(encoding: str, text: str) -> None:
    data = declared(encoding, feed_of(text)).decode().encode("cp1252")
    source = put(Path("a.xml"), data)

    assert convert(source, *TO_JSONL) == 0
    first = notice()["first"]
    codec = "iso8859-1" if encoding == "ISO-8859-1" else "iso8859-15"
    assert first["offset"] == data.index("’".encode("cp1252"))
    assert first["detail"] == (
        f"a byte from 0x80 to 0x9F, in a document that declares {codec}; read as declared:"
        " --encoding windows-1252 reads it as windows-1252"
    )
    assert convert(source, *TO_JSONL, "--fresh", "--encoding", "windows-1252") == 0
    assert (b64decode(contents()[0]).decode(), notice()) == (f"{text} 1", None)


@pytest.mark.parametrize("cut", range(1, 8))
def test_a_character_of_utf_8_that_a_block_cuts_is_not_taken_for_windows_1252(cut: int) -> None:
    head = b'<?xml version="1.0" encoding="ISO-8859-1"?><a>'
    body = " €œ😀 ".encode()
    blocks = iter([body[:cut], body[cut:], b"</a>", b""])
    stream = cast(IO[bytes], SimpleNamespace(read=lambda size: next(blocks)))
    transcoded = Transcoded(stream, "iso8859-1", head)
    while transcoded.read(1):
        pass
    assert transcoded.doubt is None or transcoded.doubt[1] == "utf-8"


def test_a_given_encoding_overrides_the_declaration() -> None:
    right = put(Path("right.xml"), feed_of("Zürich"))
    wrong = put(Path("wrong.xml"), declared("ISO-8859-1", feed_of("Zürich")))
    latin = put(Path("latin.xml"), feed_of("Zürich").decode().encode("cp1252"))
    HandSpool().feed(declared("ISO-8859-1", feed_of("Zürich")))

    assert convert(right, wrong, *TO_JSONL, "--encoding", "utf-8") == 0
    assert (len(set(contents())), notice()) == (1, None)
    expected = contents()[:1]
    assert convert(latin, *TO_JSONL, "--fresh", "--encoding", "windows-1252") == 0
    assert contents() == expected
    assert convert("spool", *TO_JSONL, "--fresh", "--encoding", "utf-8") == 0
    assert (contents(), notice()) == (expected, None)


def test_a_large_feed_is_read_in_the_given_encoding() -> None:
    text = declared("ISO-8859-1", gsa_feed(*documents(1, 200, text="Zürich")))
    source = put(Path("a.xml"), text)

    assert convert(source, *TO_JSONL, "--encoding", "utf-8", "--span-bytes", "4KiB") == 0
    assert (len(contents()), notice()) == (200, None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "groups.xml",
            '<?xml version="1.0" encoding="ISO-8859-1"?><xmlgroups><membership>'
            '<principal scope="GROUP">Zürich</principal><members/></membership></xmlgroups>',
        ),
        (
            "data.xml",
            '<?xml version="1.0" encoding="ISO-8859-1"?><ThunderstoneReplication><Item>'
            "<Type>D</Type><Url>http://e.example.com/Zürich</Url></Item></ThunderstoneReplication>",
        ),
    ],
)
def test_groups_and_thunderstone_data_have_the_notice_as_well(name: str, text: str) -> None:
    source = put(Path(name), text.encode())

    convert(source, *TO_JSONL)
    assert notice()["count"] == 1
    convert(source, *TO_JSONL, "--fresh", "--encoding", "utf-8")
    assert "Zürich".encode() in chunks("out")[0]


def test_inspect_reports_a_doubtful_encoding_and_has_the_flag(
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = put(Path("a.xml"), declared("ISO-8859-1", feed_of("Zürich")))

    assert main(["inspect", source]) == 0
    assert "encoding-doubtful: 1, as a.xml (byte " in capsys.readouterr().out
    assert main(["inspect", source, "--encoding", "utf-8"]) == 0
    assert "encoding-doubtful" not in capsys.readouterr().out
