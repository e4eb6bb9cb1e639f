"""What a span lets a state know of what was rejected behind its reader, and of what was not."""

from pathlib import Path

import msgspec

from schemas.known import Known, Seen
from schemas.reject import Reject
from transforms.sources.seen import SeenFile

FILE = Known(key="a", url="https://docs.example.com/a", modified_ns=7, digest="d")
OTHER = Known(key="b", url="https://docs.example.com/b", modified_ns=7)
ARCHIVE = Known(key="c.zip", url="", modified_ns=7)
MEMBER = Known(key="c.zip/d", url="https://docs.example.com/c.zip/d", parent="c.zip")


def rejected(url: str | None, *, action: str = "ADD") -> Reject:
    return Reject(code="c", reason="r", stage="adapt", url=url, action=action)


def kept(
    folder: Path, *seen: Seen, rejects: tuple[Reject, ...] = (), keeps_rejected: bool = False
) -> list[Seen]:
    """What stands in the file after some were seen and some were rejected."""
    path = folder / "00000-00000.seen.jsonl"
    file = SeenFile(path, keeps_rejected=keeps_rejected)
    list(map(file.add, seen))
    list(map(file.reject, rejects))
    file.write()
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [msgspec.json.decode(line, type=Seen) for line in lines]


def test_what_was_seen_is_kept_in_order(tmp_path: Path) -> None:
    seen = (Seen(known=OTHER, is_gone=True), Seen(known=FILE))
    assert kept(tmp_path, *seen) == [Seen(known=OTHER, is_gone=True), Seen(known=FILE)]


def test_where_nothing_was_seen_no_file_is_left(tmp_path: Path) -> None:
    kept(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_where_all_was_rejected_no_file_is_left(tmp_path: Path) -> None:
    kept(tmp_path, Seen(known=FILE), rejects=(rejected(FILE.url),))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_rejected_is_not_known(tmp_path: Path) -> None:
    seen = (Seen(known=FILE), Seen(known=OTHER))
    assert kept(tmp_path, *seen, rejects=(rejected(FILE.url),)) == [Seen(known=OTHER)]


def test_a_deletion_that_was_rejected_is_not_known(tmp_path: Path) -> None:
    seen = (Seen(known=FILE, is_gone=True), Seen(known=OTHER, is_gone=True))
    refused = rejected(FILE.url, action="DELETE")
    assert kept(tmp_path, *seen, rejects=(refused,)) == [Seen(known=OTHER, is_gone=True)]


def test_a_rejected_document_takes_no_deletion_of_its_url_with_it(tmp_path: Path) -> None:
    seen = (Seen(known=FILE, is_gone=True), Seen(known=FILE))
    assert kept(tmp_path, *seen, rejects=(rejected(FILE.url),)) == [Seen(known=FILE, is_gone=True)]


def test_a_reject_of_what_was_not_seen_changes_nothing(tmp_path: Path) -> None:
    refused = (rejected("https://docs.example.com/z"), rejected(None), rejected(""))
    assert kept(tmp_path, Seen(known=FILE), rejects=refused) == [Seen(known=FILE)]


def test_an_archive_with_a_rejected_member_is_to_be_read_again(tmp_path: Path) -> None:
    seen = (Seen(known=MEMBER), Seen(known=ARCHIVE))
    again = msgspec.structs.replace(ARCHIVE, modified_ns=None)
    assert kept(tmp_path, *seen, rejects=(rejected(MEMBER.url),)) == [Seen(known=again)]


def test_a_row_that_was_rejected_is_known_without_a_digest(tmp_path: Path) -> None:
    plain = msgspec.structs.replace(FILE, digest="")
    found = kept(tmp_path, Seen(known=FILE), rejects=(rejected(FILE.url),), keeps_rejected=True)
    assert found == [Seen(known=plain)]
