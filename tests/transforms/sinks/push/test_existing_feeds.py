"""Feed files that exist already: their chunks, and the faults that keep them from being sent."""

import gzip
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from schemas.account import Chunk
from schemas.errors import ConfigError, FatalError, SourceError
from transforms.sinks.push import existing_feeds
from transforms.sinks.push.existing_feeds import FeedFileOptions, chunks_of_files
from transforms.sinks.push.settings import SeveralFull

HEADER = "<header><datasource>{}</datasource><feedtype>{}</feedtype></header>"
RECORD = '<record url="http://www.example.com/{}?x=1&amp;y=2"/>'
GROUPS = b'<xmlgroups><membership><principal scope="GROUP">eng</principal></membership></xmlgroups>'
ITEM = b"<Item><Type>D</Type><Url>http://www.example.com/a</Url></Item>"
UPDATE = b"<Item><Type>UI</Type></Item>"
THUNDERSTONE = b"<ThunderstoneReplication>%b</ThunderstoneReplication>"
FORMATS = "expected gsa-feed or thunderstone or gsa-groups"
FEEDTYPES = "expected full, incremental or metadata-and-url: give it by --feedtype"


def feed(datasource: str = "docs", feedtype: str = "incremental", *, records: int = 2) -> bytes:
    group = "".join(map(RECORD.format, "abcdef"[:records]))
    header = HEADER.format(datasource, feedtype)
    return f"<gsafeed>{header}<group>{group}</group></gsafeed>".encode()


FULL = feed("docs", "full")


@contextmanager
def open_gzip(path: Path) -> Iterator[IO[bytes]]:
    try:
        with gzip.open(path) as stream:
            yield stream  # type: ignore[misc]  # a GzipFile is a stream of bytes
    except (OSError, EOFError) as exc:
        raise SourceError(f"{path}: {exc}; expected a readable file") from exc


def chunks_of(folder: Path, files: dict[str, bytes], **options: object) -> list[Chunk]:
    """Write files and return their chunks."""
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return chunks_of_files(
        [folder / name for name in files],
        FeedFileOptions(**options),  # type: ignore[arg-type]  # the fields of the options
        staging=folder / "staging",
        open_plain=open_gzip,
    )


def chunk_of(folder: Path, content: bytes, **options: object) -> Chunk:
    (chunk,) = chunks_of(folder, {"feed.xml": content}, **options)
    return chunk


def faults(folder: Path, files: dict[str, bytes], **options: object) -> list[str]:
    """Return the faults of files, without the path of the folder."""
    with pytest.raises(ConfigError) as caught:
        chunks_of(folder, files, **options)
    return str(caught.value).replace(f"{folder}/", "").splitlines()


def test_a_feed_is_described_by_its_header_and_its_records(tmp_path: Path) -> None:
    path = str(tmp_path / "feed.xml")

    assert chunk_of(tmp_path, feed()) == Chunk(
        ordinal=1,
        path=path,
        bytes=len(feed()),
        sha256=hashlib.sha256(feed()).hexdigest(),
        records={"records": 2},
        first_url="http://www.example.com/a?x=1&y=2",
        last_url="http://www.example.com/b?x=1&y=2",
        source=path,
        span=0,
        format="gsa-feed",
        datasource="docs",
        feedtype="incremental",
        requested_feedtype="incremental",
    )


def test_files_keep_their_order(tmp_path: Path) -> None:
    chunks = chunks_of(tmp_path, {"b.xml": feed("b"), "a.xml": feed("a")})

    assert [(chunk.ordinal, chunk.datasource) for chunk in chunks] == [(1, "b"), (2, "a")]


NO_HEADER = b'<gsafeed><group><record url="a"/></group></gsafeed>'
LATIN = b'<?xml version="1.0" encoding="ISO-8859-1"?>\n<!-- \xe9 -->' + feed()


@pytest.mark.parametrize(
    ("content", "flags", "expected"),
    [
        (feed(), ("web", "full"), ("gsa-feed", "web", "full", {"records": 2})),
        (NO_HEADER, ("docs", "full"), ("gsa-feed", "docs", "full", {"records": 1})),
        (GROUPS, ("ldap", None), ("gsa-groups", "ldap", "incremental", {"MEMBERSHIP": 1})),
        (GROUPS, ("ldap", "full"), ("gsa-groups", "ldap", "full", {"MEMBERSHIP": 1})),
        (
            THUNDERSTONE % (ITEM + ITEM + UPDATE),
            ("docs", "full"),
            ("thunderstone", None, None, {"UPDATE_INDEX": 1, "records": 2}),
        ),
        (
            THUNDERSTONE % UPDATE,
            (None, None),
            ("thunderstone", None, None, {"UPDATE_INDEX": 1}),
        ),
        (LATIN, (None, None), ("gsa-feed", "docs", "incremental", {"records": 2})),
        (feed(records=0), (None, None), ("gsa-feed", "docs", "incremental", {})),
    ],
)
def test_flags_override_a_file(
    tmp_path: Path,
    content: bytes,
    flags: tuple[str | None, str | None],
    expected: tuple[object, ...],
) -> None:
    datasource, feedtype = flags
    chunk = chunk_of(tmp_path, content, datasource=datasource, feedtype=feedtype)

    assert (chunk.format, chunk.datasource, chunk.feedtype, chunk.records) == expected


# Compressed files


def test_a_compressed_file_is_sent_decompressed(tmp_path: Path) -> None:
    (chunk,) = chunks_of(tmp_path, {"feed.xml.GZ": gzip.compress(feed())})

    assert chunk.path == f"{tmp_path}/staging/000001-feed.xml"
    assert Path(chunk.path).read_bytes() == feed()
    assert (chunk.source, chunk.bytes) == (f"{tmp_path}/feed.xml.GZ", len(feed()))


def test_an_incomplete_compressed_file_is_a_fault(tmp_path: Path) -> None:
    assert faults(tmp_path, {"feed.xml.gz": gzip.compress(feed())[:-10]}) == [
        "feed.xml.gz: Compressed file ended before the end-of-stream marker was reached; expected a"
        " readable file"
    ]
    assert list((tmp_path / "staging").iterdir()) == []


def test_a_file_that_is_too_large_when_decompressed_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(existing_feeds, "REQUEST_BYTES_LIMIT", len(feed()))

    assert faults(tmp_path, {"feed.xml.gz": gzip.compress(feed())}) == [
        "feed.xml.gz: 216 bytes or more when decompressed; expected fewer: convert it into chunks "
        "first"
    ]


def test_a_staging_folder_that_cannot_be_written_is_fatal(tmp_path: Path) -> None:
    (tmp_path / "staging" / "000001-feed.xml").mkdir(parents=True)
    with pytest.raises(FatalError) as caught:
        chunks_of(tmp_path, {"feed.xml.gz": gzip.compress(feed())})

    assert str(caught.value) == (
        f"{tmp_path}/staging/000001-feed.xml: Is a directory; expected to write there"
    )


# Faults


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", f"an empty file; {FORMATS}"),
        (b"<html/>", f"looks like an HTML page; {FORMATS}"),
        (
            b'<?xml version="1.0" encoding="klingon-8"?><gsafeed/>',
            "1: encoding='klingon-8'; expected the name of an encoding, such as 'UTF-8'",
        ),
        (b"<html><gsafeed/></html>", "1: root element 'html'; expected <gsafeed>"),
        (
            b"GSA Adaptor Data Version 1 [\n]\nid=a\n",
            f"lister-stream; {FORMATS}: convert it first",
        ),
        (
            feed().removesuffix(b"</gsafeed>"),
            "the last end tag is missing; expected a complete feed: records may be lost",
        ),
        (feed() + feed("other"), "2 feeds in one file; expected one: convert it first"),
        (
            b"<gsafeed><header><feedtype>full</feedtype></header><group><acl url='a'/></group>"
            b"</gsafeed>",
            "no datasource; expected one: give it by --datasource",
        ),
        (GROUPS, "no groupsource; expected one: give it by --datasource"),
        (
            feed("my docs"),
            "datasource 'my docs'; expected a letter or _, then letters, digits, _ and -: give "
            "another by --datasource",
        ),
        (feed("docs", ""), f"no feedtype; {FEEDTYPES}"),
        (feed("docs", "Full"), f"feedtype 'Full'; {FEEDTYPES}"),
        (
            feed("docs", "full", records=0),
            "a full feed without records; expected some, because it deletes all of 'docs': give "
            "--allow-empty-full to delete it",
        ),
    ],
)
def test_a_fault_is_reported_with_a_fix(tmp_path: Path, content: bytes, expected: str) -> None:
    (fault,) = faults(tmp_path, {"feed.xml": content})

    assert fault.removeprefix("feed.xml:").strip() == expected


def test_groups_cannot_be_metadata_and_url(tmp_path: Path) -> None:
    assert faults(
        tmp_path, {"feed.xml": GROUPS}, datasource="ldap", feedtype="metadata-and-url"
    ) == [
        "feed.xml: feedtype 'metadata-and-url'; expected full or incremental: give it by --feedtype"
    ]


def test_a_missing_file_and_a_folder_are_faults(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    paths = [tmp_path / "none.xml", tmp_path / "folder"]
    with pytest.raises(ConfigError) as caught:
        chunks_of_files(paths, FeedFileOptions(), staging=tmp_path, open_plain=open_gzip)

    assert str(caught.value).replace(f"{tmp_path}/", "").splitlines() == [
        "none.xml: no such file; expected a feed",
        "folder: not a file; expected a feed",
    ]


def test_all_faults_are_reported_at_once(tmp_path: Path) -> None:
    found = faults(tmp_path, {"a.xml": feed("my docs", ""), "b.xml": b"", "c.xml": FULL[:-9]})

    assert [fault.split(";")[0] for fault in found] == [
        "a.xml: datasource 'my docs'",
        "a.xml: no feedtype",
        "b.xml: an empty file",
        "c.xml: the last end tag is missing",
    ]


# Full feeds


def test_several_full_feeds_of_a_datasource_are_refused(tmp_path: Path) -> None:
    assert faults(tmp_path, {"a.xml": FULL, "b.xml": FULL}) == [
        "a.xml, b.xml: 2 full feeds of 'docs'; expected one, because each deletes the one before "
        "it: give --several-full first if they are one feed in several files, or --several-full "
        "each to send them as they are"
    ]


@pytest.mark.parametrize(
    ("contents", "several_full", "expected"),
    [
        ([FULL, feed("other", "full")], SeveralFull.REFUSE, ["full", "full"]),
        ([FULL, FULL], SeveralFull.FIRST, ["full", "incremental"]),
        (
            [FULL, feed("other", "full"), feed("docs", "full", records=0)],
            SeveralFull.FIRST,
            ["full", "full", "incremental"],
        ),
        ([feed(), FULL], SeveralFull.FIRST, ["incremental", "full"]),
        ([FULL, FULL], SeveralFull.EACH, ["full", "full"]),
    ],
)
def test_several_full_feeds_are_sent_as_stated(
    tmp_path: Path, contents: list[bytes], several_full: SeveralFull, expected: list[str]
) -> None:
    files = {f"{number}.xml": content for number, content in enumerate(contents)}
    chunks = chunks_of(tmp_path, files, several_full=several_full)

    assert [chunk.feedtype for chunk in chunks] == expected
    assert [chunk.requested_feedtype for chunk in chunks][1:] == ["full"] * (len(chunks) - 1)


def test_a_groupsource_may_have_the_name_of_a_datasource(tmp_path: Path) -> None:
    files = {"a.xml": FULL, "b.xml": GROUPS}
    chunks = chunks_of(tmp_path, files, datasource="docs", feedtype="full")

    assert [chunk.format for chunk in chunks] == ["gsa-feed", "gsa-groups"]


def test_an_empty_full_feed_can_be_allowed(tmp_path: Path) -> None:
    chunk = chunk_of(tmp_path, feed("docs", "full", records=0), allow_empty_full=True)

    assert (chunk.feedtype, chunk.records) == ("full", {})
