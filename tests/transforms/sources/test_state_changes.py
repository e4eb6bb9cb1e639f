"""The state changes of a span, after some of its documents were rejected."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from feedferry.schemas.reject import Reject
from feedferry.schemas.sent_document import NO_DIGEST, SentDocument, StateChange
from feedferry.transforms.sources.state_changes import StateChangeFile
from feedferry.transforms.storage.atomic import AtomicFile
from feedferry.transforms.storage.storage import LocalStorage

FILE = SentDocument(key="a", url="https://docs.example.com/a", modified_ns=7, digest="d")
OTHER = SentDocument(key="b", url="https://docs.example.com/b", modified_ns=7)
ARCHIVE = SentDocument(key="c.zip", url="", modified_ns=7)
MEMBER = SentDocument(key="c.zip/d", url="https://docs.example.com/c.zip/d", parent="c.zip")


def present(document: SentDocument) -> StateChange:
    return StateChange(document=document)


def gone(document: SentDocument) -> StateChange:
    return StateChange(document=document, is_deleted=True)


def rejected(url: str | None, *, action: str = "ADD") -> Reject:
    return Reject(code="c", reason="r", stage="adapt", url=url, action=action)


def kept(
    folder: Path, changes: list[StateChange], rejects: list[Reject], *, keeps_rejected: bool = False
) -> list[StateChange] | None:
    """Return the changes in the file, None if there is no file."""
    path = folder / "00000-00000.seen.jsonl"
    written = AtomicFile(LocalStorage(folder), path.name)
    file = StateChangeFile(written, keeps_rejected=keeps_rejected)
    for change in changes:
        file.add(change)
    for reject in rejects:
        file.reject(reject)
    file.write()
    if not path.exists():
        assert list(folder.iterdir()) == []
        return None
    return [msgspec.json.decode(line, type=StateChange) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize(
    ("changes", "rejects", "expected"),
    [
        ([], [], None),
        ([gone(OTHER), present(FILE)], [], [gone(OTHER), present(FILE)]),
        ([present(FILE)], [rejected(FILE.url)], None),
        ([present(FILE), present(OTHER)], [rejected(FILE.url)], [present(OTHER)]),
        ([gone(FILE), gone(OTHER)], [rejected(FILE.url, action="DELETE")], [gone(OTHER)]),
        ([gone(FILE), present(FILE)], [rejected(FILE.url)], [gone(FILE)]),
        (
            [present(FILE)],
            [rejected("https://docs.example.com/z"), rejected(None), rejected("")],
            [present(FILE)],
        ),
        (  # the archive is read again
            [present(MEMBER), present(ARCHIVE)],
            [rejected(MEMBER.url)],
            [present(replace(ARCHIVE, modified_ns=None))],
        ),
    ],
)
def test_rejected_documents_are_not_remembered(
    tmp_path: Path,
    changes: list[StateChange],
    rejects: list[Reject],
    expected: list[StateChange] | None,
) -> None:
    assert kept(tmp_path, changes, rejects) == expected


def test_a_rejected_row_is_remembered_without_a_digest(tmp_path: Path) -> None:
    changes = kept(tmp_path, [present(FILE)], [rejected(FILE.url)], keeps_rejected=True)
    assert changes == [present(replace(FILE, digest=NO_DIGEST))]
