"""Feed files that exist already: their chunks, and the faults that keep them from being sent."""

import gzip
import hashlib
from pathlib import Path

import pytest

from feedferry.pipelines.options.push_options import PushOptions
from feedferry.pipelines.push.feed_files import scan_files, unpack
from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import ConfigError
from feedferry.transforms.sinks.push.settings import PushSettings, SeveralFull
from support.fake_appliance import GSA
from support.fake_appliance import THUNDERSTONE as THUNDERSTONE_APPLIANCE

HEADER = "<header><datasource>{}</datasource><feedtype>{}</feedtype></header>"
RECORD = '<record url="http://www.example.com/{}?x=1&amp;y=2"/>'
GROUPS = b'<xmlgroups><membership><principal scope="GROUP">eng</principal></membership></xmlgroups>'
ITEM = b"<Item><Type>D</Type><Url>http://www.example.com/a</Url></Item>"
UPDATE = b"<Item><Type>UI</Type></Item>"
THUNDERSTONE = b"<ThunderstoneReplication>%b</ThunderstoneReplication>"
FORMATS = "expected gsa-feed or gsa-groups for http://gsa.example.com:19900"
FEEDTYPES = "expected full or incremental or metadata-and-url: give it by --feedtype"


def feed(datasource: str = "docs", feedtype: str = "incremental", *, records: int = 2) -> bytes:
    group = "".join(map(RECORD.format, "abcdef"[:records]))
    header = HEADER.format(datasource, feedtype)
    return f"<gsafeed>{header}<group>{group}</group></gsafeed>".encode()


FULL = feed("docs", "full")
NO_HEADER = b'<gsafeed><group><record url="a"/></group></gsafeed>'
LATIN = b'<?xml version="1.0" encoding="ISO-8859-1"?>\n<!-- \xe9 -->' + feed()


def chunks_of(folder: Path, files: dict[str, bytes], **options: object) -> list[Chunk]:
    """Write files and return their chunks."""
    for name, content in files.items():
        (folder / name).write_bytes(content)
    inputs = tuple(str(folder / name) for name in files)
    stated = PushOptions(inputs=inputs, **options)  # type: ignore[arg-type]  # its fields
    is_gsa = not any(b"<Thunderstone" in content for content in files.values())
    appliance = GSA if is_gsa else THUNDERSTONE_APPLIANCE
    settings = PushSettings(appliance=appliance, allow_empty_full=stated.allow_empty_full)
    staging = folder / "staging"
    staging.mkdir()
    return scan_files(stated, settings, staging)


def faults(folder: Path, files: dict[str, bytes]) -> list[str]:
    """Return the faults of files, without the path of the folder."""
    with pytest.raises(ConfigError) as caught:
        chunks_of(folder, files)
    return str(caught.value).replace(f"{folder}/", "").splitlines()


def test_a_feed_is_described_by_its_header_and_its_records(tmp_path: Path) -> None:
    path = str(tmp_path / "feed.xml")

    assert chunks_of(tmp_path, {"feed.xml": feed()}) == [
        Chunk(
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
    ]


@pytest.mark.parametrize(
    ("content", "flags", "expected"),
    [
        (feed(), ("other", "full"), ("gsa-feed", "other", "full", {"records": 2})),
        (NO_HEADER, ("docs", "full"), ("gsa-feed", "docs", "full", {"records": 1})),
        (GROUPS, ("ldap", None), ("gsa-groups", "ldap", "incremental", {"MEMBERSHIP": 1})),
        (GROUPS, ("ldap", "full"), ("gsa-groups", "ldap", "full", {"MEMBERSHIP": 1})),
        (
            THUNDERSTONE % (ITEM + ITEM + UPDATE),
            ("docs", "full"),
            ("thunderstone", None, None, {"records": 3}),
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
    files = {"feed.xml": content}
    chunk, *_ = chunks_of(tmp_path, files, datasource=datasource, feedtype=feedtype)

    assert (chunk.format, chunk.datasource, chunk.feedtype, chunk.records) == expected


# Compressed files


def test_a_compressed_file_is_sent_decompressed(tmp_path: Path) -> None:
    [chunk] = chunks_of(tmp_path, {"feed.xml.GZ": gzip.compress(feed())})

    assert chunk.path == f"{tmp_path}/staging/000001-feed.xml"
    assert Path(chunk.path).read_bytes() == feed()
    assert (chunk.source, chunk.bytes) == (f"{tmp_path}/feed.xml.GZ", len(feed()))


def test_an_incomplete_compressed_file_is_a_fault(tmp_path: Path) -> None:
    [fault] = faults(tmp_path, {"feed.xml.gz": gzip.compress(feed())[:-10]})

    assert fault.startswith("feed.xml.gz: ")


def test_a_file_that_is_too_large_when_decompressed_is_a_fault(tmp_path: Path) -> None:
    path, plain = tmp_path / "feed.xml.gz", tmp_path / "feed.xml"
    path.write_bytes(gzip.compress(feed()))
    with pytest.raises(ConfigError, match="216 bytes or more when decompressed; expected fewer: "):
        unpack(path, plain, max_bytes=len(feed()))

    assert not plain.exists()


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
        (b"GSA Adaptor Data Version 1 [\n]\nid=a\n", f"lister-stream; {FORMATS}: convert it first"),
        (
            feed().removesuffix(b"</gsafeed>"),
            "the last end tag is missing; expected a complete feed: records may be lost",
        ),
        (feed() + feed("other"), "2 feeds in one file; expected one: convert it first"),
        (
            b"<gsafeed><header><feedtype>full</feedtype></header><group><acl url='a'/></group>"
            b"</gsafeed>",
            "no datasource; expected a name: give it by --datasource",
        ),
        (GROUPS, "no groupsource; expected a name: give it by --datasource"),
        (
            feed("my docs"),
            "datasource 'my docs'; expected a letter or _, then letters, digits, _ and -,"
            " at most 250",
        ),
        (feed("docs", ""), f"no feedtype; {FEEDTYPES}"),
        (feed("docs", "Fulll"), f"feedtype='Fulll'; {FEEDTYPES}"),
        (
            feed("docs", "full", records=0),
            "a full feed without records, which empties 'docs'; expected records, or "
            "--allow-empty-full",
        ),
    ],
)
def test_a_fault_is_reported_with_a_fix(tmp_path: Path, content: bytes, expected: str) -> None:
    (fault,) = faults(tmp_path, {"feed.xml": content})

    assert fault.removeprefix("feed.xml:").strip() == expected


def test_all_files_that_cannot_be_read_are_reported_at_once(tmp_path: Path) -> None:
    lines = faults(tmp_path, {"a.xml": feed(), "b.xml": b"", "c.xml": FULL[:-9]})

    assert [line.split(";")[0] for line in lines] == [
        "b.xml: an empty file",
        "c.xml: the last end tag is missing",
    ]


# Full feeds


def test_several_full_feeds_of_a_datasource_are_refused(tmp_path: Path) -> None:
    assert faults(tmp_path, {"a.xml": FULL, "b.xml": FULL}) == [
        "a.xml, b.xml: 2 full feeds of 'docs'; expected one, because each deletes the one before "
        "it: push the newest alone, or give --several-full each to send all, or --several-full "
        "first for files of one feed"
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
