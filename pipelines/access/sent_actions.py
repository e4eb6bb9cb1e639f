"""The actions on one document that the runs of a job have sent, from their chunks and lists."""

import csv
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.folders.locks import PUSHES
from feedferry.pipelines.folders.manifest import Manifest, read_manifest
from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import ConfigError, SourceError
from feedferry.schemas.feed import FULL
from feedferry.schemas.record import Action, Record
from feedferry.transforms.formats import by_name
from feedferry.transforms.rules.withheld_list import WITHHELD


class Withheld(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run has withheld a document; `is_refused` if the target has refused its version."""

    run: str
    code: str
    where: str
    message: str
    is_refused: bool = False


class SentAction(msgspec.Struct, frozen=True, kw_only=True):
    """An action on a document in a chunk, and its record."""

    run: str
    chunk: Path
    source: str
    record: Record


class SentHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The newest action on a document, and the one that has written or deleted all of it.

    Without the latter, no chunk has the whole document.
    """

    newest: SentAction
    document: SentAction | None = None
    withheld: Withheld | None = None


class SentSearch(msgspec.Struct, frozen=True, kw_only=True):
    """The actions by datasource, and the run of the full feed that ends the search in each."""

    sent: dict[str, SentHistory] = {}
    full_feeds: dict[str, str] = {}


def find_sent(folders: Sequence[Path], url: str, datasource: str | None) -> SentSearch:
    """Search the chunks of runs, the newest first, back to the action on the whole document.

    Without a datasource, search those of all. The documents before a full feed do not count.
    """
    found, ended = SentSearch(), set[str]()
    for folder in folders:
        manifest = _manifest_of(folder)
        chunks = [] if manifest is None else [*manifest]
        for chunk in reversed(chunks):
            stated = chunk.datasource or ""
            if stated in ended or datasource not in (None, stated):
                continue
            for action in reversed([*_actions(folder, chunk, [url])]):
                is_whole = action.record.action is not Action.UPDATE
                known = found.sent.get(stated)
                if known is None:
                    withheld = _withheld(folder, url, stated)
                    known = SentHistory(newest=action, withheld=withheld)
                found.sent[stated] = replace(known, document=action) if is_whole else known
                if is_whole:
                    ended.add(stated)
                    break
        for chunk in chunks:
            stated = chunk.datasource or ""
            if chunk.requested_feedtype == FULL and stated not in ended:
                ended.add(stated)
                found.full_feeds[stated] = folder.name
    return found


def _manifest_of(folder: Path) -> Manifest | None:
    """Return the chunks of a run, None for one that has not published any."""
    try:
        return read_manifest(folder)
    except ConfigError:
        return None


def newest_actions(folder: Path, urls: Collection[str]) -> dict[tuple[str, str], SentAction]:
    """Return the last action of a run on each document, by its datasource and URL."""
    return {
        (chunk.datasource or "", action.record.url): action
        for chunk in (_manifest_of(folder) if urls else None) or ()
        for action in _actions(folder, chunk, urls)
    }


def read_withheld(folder: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield the lines of the lists of a run, each with its file; those of pushes come first."""
    for path in [*sorted(folder.glob(f"{PUSHES}/*/{WITHHELD}")), folder / WITHHELD]:
        if path.exists():
            with path.open(encoding="utf-8", newline="") as stream:
                yield from ((path, row) for row in csv.DictReader(stream))


def _actions(folder: Path, chunk: Chunk, urls: Collection[str]) -> Iterator[SentAction]:
    """Yield the actions of a chunk on documents, in order."""
    format_ = None if chunk.format is None else by_name(chunk.format)
    if format_ is None or format_.find_records is None:
        return
    path = folder / chunk.path
    try:
        with path.open("rb") as stream:
            for record in format_.find_records(stream, urls):
                source = chunk.origin or chunk.source
                yield SentAction(run=folder.name, chunk=path, source=source, record=record)
    except OSError as exc:
        raise SourceError(f"{path}: {exc.strerror}; expected the chunks of the run") from exc


def _withheld(folder: Path, url: str, datasource: str) -> Withheld | None:
    """Return why a run has withheld a document, None if it has not; the push comes last."""
    for path, row in read_withheld(folder):
        if row["url"] == url and row["datasource"] in ("", datasource):
            return Withheld(
                run=folder.name,
                code=row["code"],
                where=row["where"],
                message=row["message"],
                is_refused=path.parent != folder,
            )
    return None
