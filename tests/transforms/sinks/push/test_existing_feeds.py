"""Feed files that exist already: what is told of them, and what keeps them from being sent."""

import gzip
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import pytest

from schemas.account import Chunk
from schemas.errors import ConfigError, FatalError, SourceError
from transforms.sinks.push import existing_feeds
from transforms.sinks.push.existing_feeds import SeveralFull, describe

HEADER = "<header><datasource>{}</datasource><feedtype>{}</feedtype></header>"
RECORD = '<record url="http://www.example.com/{}?x=1&amp;y=2"/>'
GROUPS = b'<xmlgroups><membership><principal scope="GROUP">eng</principal></membership></xmlgroups>'
ITEM = b"<Item><Type>D</Type><Url>http://www.example.com/a</Url></Item>"
UPDATE = b"<Item><Type>UI</Type></Item>"
THUNDERSTONE = b"<ThunderstoneReplication>%b</ThunderstoneReplication>"


def feed(datasource: str = "docs", feedtype: str = "incremental", *, records: int = 2) -> bytes:
    group = "".join(map(RECORD.format, "abcdef"[:records]))
    header = HEADER.format(datasource, feedtype)
    return f"<gsafeed>{header}<group>{group}</group></gsafeed>".encode()


@contextmanager
def open_gzip(path: Path) -> Iterator[IO[bytes]]:
    try:
        with gzip.open(path) as stream:
            yield cast("IO[bytes]", stream)
    except (OSError, EOFError) as exc:
        raise SourceError(f"{path}: {exc}; expected a file that can be read") from exc


class Files:
    """A folder of feed files, and what is told of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, markup: bytes) -> str:
        (self.folder / name).write_bytes(markup)
        return name

    def describe(
        self,
        *names: str,
        datasource: str | None = None,
        feedtype: str | None = None,
        several_full: SeveralFull = SeveralFull.REFUSE,
        allow_empty_full: bool = False,
    ) -> list[Chunk]:
        return describe(
            [self.folder / name for name in names],
            datasource=datasource,
            feedtype=feedtype,
            several_full=several_full,
            staging=self.folder / "staging",
            open_plain=open_gzip,
            allow_empty_full=allow_empty_full,
        )

    def chunk(
        self, markup: bytes, *, datasource: str | None = None, feedtype: str | None = None
    ) -> Chunk:
        """The chunk of one file."""
        name = self.write("feed.xml", markup)
        (chunk,) = self.describe(name, datasource=datasource, feedtype=feedtype)
        return chunk

    def faults(self, *names: str, several_full: SeveralFull = SeveralFull.REFUSE) -> list[str]:
        """What is wrong with files, without the path of the folder."""
        with pytest.raises(ConfigError) as caught:
            self.describe(*names, several_full=several_full)
        return str(caught.value).replace(f"{self.folder}/", "").splitlines()

    def fault(
        self, markup: bytes, *, datasource: str | None = None, feedtype: str | None = None
    ) -> str:
        """What is wrong with one file."""
        with pytest.raises(ConfigError) as caught:
            self.chunk(markup, datasource=datasource, feedtype=feedtype)
        return str(caught.value).replace(f"{self.folder}/", "")

    def left(self) -> list[str]:
        return sorted(path.name for path in self.folder.rglob("*") if path.is_file())


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def feedtypes(chunks: list[Chunk]) -> list[tuple[str | None, str | None]]:
    return [(chunk.feedtype, chunk.requested_feedtype) for chunk in chunks]


# What is told


def test_a_feed_is_described(files: Files) -> None:
    markup = feed()
    assert files.chunk(markup) == Chunk(
        ordinal=1,
        path=f"{files.folder}/feed.xml",
        bytes=len(markup),
        sha256=hashlib.sha256(markup).hexdigest(),
        records={"records": 2},
        first_url="http://www.example.com/a?x=1&y=2",
        last_url="http://www.example.com/b?x=1&y=2",
        source=f"{files.folder}/feed.xml",
        span=0,
        format="gsa-feed",
        datasource="docs",
        feedtype="incremental",
        requested_feedtype="incremental",
    )


def test_files_keep_the_order_that_they_are_given_in(files: Files) -> None:
    files.write("a.xml", feed("a"))
    files.write("b.xml", feed("b"))
    chunks = files.describe("b.xml", "a.xml")
    assert [(chunk.ordinal, chunk.datasource) for chunk in chunks] == [(1, "b"), (2, "a")]


def test_flags_win_over_the_header(files: Files) -> None:
    chunk = files.chunk(feed(), datasource="web", feedtype="metadata-and-url")
    assert (chunk.datasource, chunk.feedtype) == ("web", "metadata-and-url")


def test_flags_stand_for_a_header_that_says_nothing(files: Files) -> None:
    markup = b'<gsafeed><group><record url="a"/></group></gsafeed>'
    chunk = files.chunk(markup, datasource="docs", feedtype="incremental")
    assert (chunk.datasource, chunk.feedtype) == ("docs", "incremental")


def test_groups_are_added_to_those_of_their_groupsource(files: Files) -> None:
    chunk = files.chunk(GROUPS, datasource="sharepoint")
    assert (chunk.format, chunk.datasource, chunk.feedtype, chunk.first_url) == (
        "gsa-groups",
        "sharepoint",
        "incremental",
        "eng",
    )


def test_groups_may_replace_those_of_their_groupsource(files: Files) -> None:
    assert files.chunk(GROUPS, datasource="sharepoint", feedtype="full").feedtype == "full"


def test_groups_are_counted_as_memberships(files: Files) -> None:
    assert files.chunk(GROUPS, datasource="sharepoint").records == {"MEMBERSHIP": 1}


def test_thunderstone_data_have_neither_datasource_nor_feedtype(files: Files) -> None:
    chunk = files.chunk(THUNDERSTONE % ITEM, datasource="docs", feedtype="full")
    assert (chunk.format, chunk.datasource, chunk.feedtype) == ("thunderstone", None, None)


def test_updates_of_the_search_indexes_are_told_from_records(files: Files) -> None:
    chunk = files.chunk(THUNDERSTONE % (ITEM + ITEM + UPDATE))
    assert chunk.records == {"UPDATE_INDEX": 1, "records": 2}


def test_an_update_of_the_search_indexes_may_be_all(files: Files) -> None:
    assert files.chunk(THUNDERSTONE % UPDATE).records == {"UPDATE_INDEX": 1}


def test_a_feed_in_another_encoding_is_counted(files: Files) -> None:
    declared = b'<?xml version="1.0" encoding="ISO-8859-1"?>\n<!-- \xe9 -->'
    chunk = files.chunk(declared + feed())
    assert (chunk.records, chunk.bytes) == ({"records": 2}, len(declared + feed()))


# Compressed files


def test_a_compressed_file_is_staged(files: Files) -> None:
    files.write("feed.xml.GZ", gzip.compress(feed()))
    (chunk,) = files.describe("feed.xml.GZ")
    assert (chunk.path, Path(chunk.path).read_bytes(), chunk.source) == (
        f"{files.folder}/staging/000001-feed.xml",
        feed(),
        f"{files.folder}/feed.xml.GZ",
    )


def test_a_compressed_file_is_described_as_it_is_sent(files: Files) -> None:
    files.write("feed.xml.gz", gzip.compress(feed()))
    (chunk,) = files.describe("feed.xml.gz")
    assert (chunk.bytes, chunk.sha256) == (len(feed()), hashlib.sha256(feed()).hexdigest())


def test_nothing_is_staged_of_plain_files(files: Files) -> None:
    files.chunk(feed())
    assert files.left() == ["feed.xml"]


def test_a_compressed_file_that_is_torn_is_told(files: Files) -> None:
    files.write("feed.xml.gz", gzip.compress(feed())[:-10])
    assert files.faults("feed.xml.gz") == [
        "feed.xml.gz: Compressed file ended before the end-of-stream marker was reached; expected a"
        " file that can be read"
    ]


def test_a_compressed_file_that_is_torn_is_not_staged(files: Files) -> None:
    files.write("feed.xml.gz", gzip.compress(feed())[:-10])
    files.faults("feed.xml.gz")
    assert files.left() == ["feed.xml.gz"]


def test_what_is_too_large_when_it_is_decompressed_is_told(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(existing_feeds, "REQUEST_BYTES_LIMIT", len(feed()))
    files.write("feed.xml.gz", gzip.compress(feed()))
    assert files.faults("feed.xml.gz") == [
        "feed.xml.gz: 216 bytes or more when it is decompressed; expected fewer: convert it into "
        "chunks first"
    ]


def test_staging_where_nothing_can_be_written_ends_it_all(files: Files) -> None:
    files.write("feed.xml.gz", gzip.compress(feed()))
    (files.folder / "staging" / "000001-feed.xml").mkdir(parents=True)
    with pytest.raises(FatalError) as caught:
        files.describe("feed.xml.gz")
    assert str(caught.value) == (
        f"{files.folder}/staging/000001-feed.xml: Is a directory; expected to write there"
    )


# Files that are no feed to send


def test_a_file_that_is_not_there_is_told(files: Files) -> None:
    assert files.faults("feed.xml") == ["feed.xml: not there; expected a feed"]


def test_a_folder_is_no_feed(files: Files) -> None:
    (files.folder / "sub").mkdir()
    assert files.faults("sub") == ["sub: no file; expected a feed"]


def test_an_empty_file_is_no_feed(files: Files) -> None:
    assert files.fault(b"") == (
        "feed.xml: an empty file; expected gsa-feed or gsa-groups or thunderstone"
    )


def test_any_text_is_no_feed(files: Files) -> None:
    assert files.fault(b"<html/>") == (
        "feed.xml: looks like an HTML page; expected gsa-feed or gsa-groups or thunderstone"
    )


def test_an_encoding_that_nobody_knows_is_told(files: Files) -> None:
    assert files.fault(b'<?xml version="1.0" encoding="klingon-8"?><gsafeed/>') == (
        "feed.xml:1: encoding='klingon-8'; expected the name of an encoding, such as 'UTF-8'"
    )


def test_a_feed_that_only_mentions_its_root_is_told(files: Files) -> None:
    assert files.fault(b"<html><gsafeed/></html>") == (
        "feed.xml:1: root element 'html'; expected <gsafeed>"
    )


def test_records_in_another_format_are_told(files: Files) -> None:
    assert files.fault(b"GSA Adaptor Data Version 1 [\n]\nid=a\n") == (
        "feed.xml: lister-stream; expected gsa-feed or gsa-groups or thunderstone: convert it first"
    )


def test_a_feed_that_does_not_end_is_told(files: Files) -> None:
    assert files.fault(feed().removesuffix(b"</gsafeed>")) == (
        "feed.xml: the end of the file; expected its last end tag: records may be missing"
    )


def test_feeds_behind_one_another_are_told(files: Files) -> None:
    assert files.fault(feed() + feed("other")) == (
        "feed.xml: 2 feeds behind one another; expected one: convert it first"
    )


# Names


def test_a_feed_without_a_datasource_is_told(files: Files) -> None:
    markup = b"<gsafeed><header><feedtype>full</feedtype></header><group><acl url='a'/></group>"
    assert files.fault(markup + b"</gsafeed>") == (
        "feed.xml: no datasource; expected one: give it by --datasource"
    )


def test_groups_without_a_groupsource_are_told(files: Files) -> None:
    assert files.fault(GROUPS) == "feed.xml: no groupsource; expected one: give it by --datasource"


def test_a_datasource_that_no_appliance_takes_is_told(files: Files) -> None:
    assert files.fault(feed("my docs")) == (
        "feed.xml: datasource 'my docs'; expected a letter or _, then letters, digits, _ and -: "
        "give another by --datasource"
    )


def test_a_feed_without_a_feedtype_is_told(files: Files) -> None:
    assert files.fault(feed("docs", "")) == (
        "feed.xml: no feedtype; expected full, incremental or metadata-and-url: give it by "
        "--feedtype"
    )


def test_a_feedtype_that_nobody_knows_is_told(files: Files) -> None:
    assert files.fault(feed("docs", "Full")) == (
        "feed.xml: feedtype 'Full'; expected full, incremental or metadata-and-url: give it by "
        "--feedtype"
    )


def test_groups_have_no_metadata_and_url(files: Files) -> None:
    assert files.fault(GROUPS, datasource="ldap", feedtype="metadata-and-url") == (
        "feed.xml: feedtype 'metadata-and-url'; expected full or incremental: give it by --feedtype"
    )


def test_all_that_is_wrong_is_told_at_once(files: Files) -> None:
    files.write("a.xml", feed("my docs", ""))
    files.write("b.xml", b"")
    files.write("c.xml", feed().removesuffix(b"</gsafeed>"))
    assert files.faults("a.xml", "b.xml", "c.xml") == [
        "a.xml: datasource 'my docs'; expected a letter or _, then letters, digits, _ and -: give "
        "another by --datasource",
        "a.xml: no feedtype; expected full, incremental or metadata-and-url: give it by --feedtype",
        "b.xml: an empty file; expected gsa-feed or gsa-groups or thunderstone",
        "c.xml: the end of the file; expected its last end tag: records may be missing",
    ]


# Full feeds


def test_several_full_feeds_of_a_datasource_are_refused(files: Files) -> None:
    files.write("a.xml", feed("docs", "full"))
    files.write("b.xml", feed("docs", "full"))
    assert files.faults("a.xml", "b.xml") == [
        "a.xml, b.xml: 2 full feeds of 'docs'; expected one, for each erases what the one before it"
        " brought: give --several-full first if they are one feed in several files, --several-full "
        "each to send them as they are"
    ]


def test_full_feeds_of_two_datasources_are_taken(files: Files) -> None:
    files.write("a.xml", feed("a", "full"))
    files.write("b.xml", feed("b", "full"))
    assert feedtypes(files.describe("a.xml", "b.xml")) == [("full", "full"), ("full", "full")]


def test_groups_are_not_of_the_datasource_with_the_name_of_their_groupsource(files: Files) -> None:
    files.write("a.xml", feed("docs", "full"))
    files.write("b.xml", GROUPS)
    chunks = files.describe("a.xml", "b.xml", datasource="docs", feedtype="full")
    assert [chunk.format for chunk in chunks] == ["gsa-feed", "gsa-groups"]


def test_of_one_full_feed_in_several_files_the_first_is_full(files: Files) -> None:
    files.write("a.xml", feed("docs", "full"))
    files.write("b.xml", feed("docs", "full"))
    chunks = files.describe("a.xml", "b.xml", several_full=SeveralFull.FIRST)
    assert feedtypes(chunks) == [("full", "full"), ("incremental", "full")]


def test_the_first_full_feed_of_each_datasource_is_full(files: Files) -> None:
    files.write("a.xml", feed("a", "full"))
    files.write("b.xml", feed("b", "full"))
    chunks = files.describe("a.xml", "b.xml", "a.xml", several_full=SeveralFull.FIRST)
    assert [chunk.feedtype for chunk in chunks] == ["full", "full", "incremental"]


def test_an_incremental_feed_stays_so_before_a_full_one(files: Files) -> None:
    files.write("a.xml", feed("docs", "incremental"))
    files.write("b.xml", feed("docs", "full"))
    chunks = files.describe("a.xml", "b.xml", several_full=SeveralFull.FIRST)
    assert feedtypes(chunks) == [("incremental", "incremental"), ("full", "full")]


def test_full_feeds_may_erase_one_another(files: Files) -> None:
    files.write("a.xml", feed("docs", "full"))
    files.write("b.xml", feed("docs", "full"))
    chunks = files.describe("a.xml", "b.xml", several_full=SeveralFull.EACH)
    assert feedtypes(chunks) == [("full", "full"), ("full", "full")]


def test_a_full_feed_without_records_is_refused(files: Files) -> None:
    assert files.fault(feed("docs", "full", records=0)) == (
        "feed.xml: a full feed without records; expected some, for it wipes all of 'docs': give "
        "--allow-empty-full if that is what you want"
    )


def test_full_groups_without_memberships_are_refused(files: Files) -> None:
    assert files.fault(b"<xmlgroups></xmlgroups>", datasource="ldap", feedtype="full") == (
        "feed.xml: a full feed without records; expected some, for it wipes all of 'ldap': give "
        "--allow-empty-full if that is what you want"
    )


def test_a_full_feed_without_records_may_be_allowed(files: Files) -> None:
    files.write("feed.xml", feed("docs", "full", records=0))
    (chunk,) = files.describe("feed.xml", allow_empty_full=True)
    assert (chunk.feedtype, chunk.records) == ("full", {})


def test_an_incremental_feed_may_have_no_records(files: Files) -> None:
    assert files.chunk(feed(records=0)).records == {}


def test_a_later_part_of_a_full_feed_may_have_no_records(files: Files) -> None:
    files.write("a.xml", feed("docs", "full"))
    files.write("b.xml", feed("docs", "full", records=0))
    chunks = files.describe("a.xml", "b.xml", several_full=SeveralFull.FIRST)
    assert [chunk.records for chunk in chunks] == [{"records": 2}, {}]
