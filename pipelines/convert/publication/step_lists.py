"""What steps did in all spans: merged URLs, unmapped principals, patterns that match nothing.

The rejects of the groups that a step reads are in the account, too.
"""

import csv
import io
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from feedferry.schemas.account import Account, NoticeCount, SpanFile, add_reject_sample
from feedferry.schemas.feed import FULL
from feedferry.schemas.notice import Notice
from feedferry.schemas.sent_document import UNCHANGED
from feedferry.schemas.units import counted
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.span_account import UNREADABLE_ACTION
from feedferry.transforms.rules.known_rejects import entry_of
from feedferry.transforms.sources import SHARED
from feedferry.transforms.steps.acl_store import count_alone, count_parents, rejects_path
from feedferry.transforms.steps.run_lists import UrlOrigin, read_origins, read_unmapped, read_used
from feedferry.transforms.storage.atomic import read_lines, read_rejects, whole_file
from feedferry.transforms.storage.files.scratch import scratch_database
from feedferry.transforms.storage.files.spill import Spill
from feedferry.transforms.storage.run_folders.attempts import digest_of

MERGED_URLS = "merged-urls.csv"
UNMAPPED = "unmapped-principals.csv"
SHARED_URLS = "shared-urls.csv"
STEP_LISTS = (MERGED_URLS, SHARED_URLS, UNMAPPED)
"""The lists in the folder of a run, and of its output."""

URLS_MERGED = "urls-merged"
"""The code of a notice about documents that become one URL."""

URLS_SHARED = "urls-shared"
"""The code of a notice about documents that have one URL in their source."""

_SAMPLES = 3
_NAMES = """
CREATE TABLE names (step TEXT, scope TEXT, name TEXT, count INTEGER NOT NULL,
    PRIMARY KEY (step, scope, name)) WITHOUT ROWID
"""
_ADD = (
    "INSERT INTO names VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count"
)
_Rows = Iterable[tuple[object, ...]]


class StepLists:
    """The lists of what the steps of a run did, in its folder, and their notices in its account."""

    def __init__(self, account: Account, settings: Settings) -> None:
        self._account = account
        self._settings = settings
        self._folder = settings.local

    def write(self) -> None:
        """Write the lists, and add their notices to the account."""
        for name in STEP_LISTS:
            (self._folder / name).unlink(missing_ok=True)
        merged = read_origins(self._folder, self._account.files)
        self._list_urls(URLS_MERGED, MERGED_URLS, merged, verb="become")
        shared = read_lines(sorted(self._folder.glob(f"*{SHARED}")), UrlOrigin)
        self._list_urls(URLS_SHARED, SHARED_URLS, shared, verb="share")
        self._list_unmapped()
        self._note_unused()
        self._note_parents()
        self._note_alone()

    def _list_urls(self, code: str, name: str, pairs: Iterable[UrlOrigin], *, verb: str) -> None:
        urls = documents = 0
        samples: list[str] = []

        def rows() -> Iterator[tuple[str, str]]:
            nonlocal urls, documents
            for url, origins in self._grouped(pairs):
                urls, documents = urls + 1, documents + len(origins)
                if len(samples) < _SAMPLES:
                    samples.append(f"{' and '.join(map(repr, origins[:2]))} {verb} {url!r}")
                yield from ((url, origin) for origin in origins)

        _write(self._folder / name, ("url", "origin"), rows())
        if urls:
            shared = counted(urls, "URL")
            detail = f"{documents:,} documents {verb} {shared}; the last of each is left: "
            notice = Notice(code=code, detail=detail + "; ".join(samples))
            self._account.notices[code] = NoticeCount(urls, notice)

    def _grouped(self, pairs: Iterable[UrlOrigin]) -> Iterator[tuple[str, list[str]]]:
        """Yield each URL with several origins, with those."""
        spilled = self._folder / "origins.spill"
        shutil.rmtree(spilled, ignore_errors=True)
        spilled.mkdir()
        spill = Spill(spilled)
        spill.add(0, ((pair.url.encode(), pair.origin.encode()) for pair in pairs))
        for key, (found,) in spill.keys(1):
            origins = [origin.decode() for origin in dict.fromkeys(found)]
            if len(origins) > 1:
                yield key.decode(), origins
        shutil.rmtree(spilled)

    def _list_unmapped(self) -> None:
        with closing(scratch_database(_NAMES)) as names:
            for item in read_unmapped(self._folder, self._account.files):
                names.execute(_ADD, (item.step, item.scope, item.name, item.count))
            query = (
                "SELECT name, scope, count, step FROM names ORDER BY count DESC, name, scope, step"
            )
            _write(
                self._folder / UNMAPPED, ("name", "scope", "count", "step"), names.execute(query)
            )
            count, places = names.execute("SELECT count(*), sum(count) FROM names").fetchone()
            samples = ", ".join(repr(row[0]) for row in islice(names.execute(query), _SAMPLES))
        if count:
            detail = f"{count:,} principals in {places:,} places are not mapped, such as {samples}"
            notice = Notice(code="principals-unmapped", detail=f"{detail}; {UNMAPPED} has all")
            self._account.notices["principals-unmapped"] = NoticeCount(count, notice)

    def _note_unused(self) -> None:
        """Add a notice about patterns that match nothing, of steps that have an effect."""
        if not sees_all_records(self._account):
            return
        used = {*read_used(self._folder, self._account.files)}
        with_effect = {*self._account.changed, *self._account.filter_codes}
        unused = [
            f"{pattern!r} of {step}"
            for step, pattern in self._settings.steps.patterns
            if step in with_effect and (step, pattern) not in used
        ]
        if unused:
            detail = f"{len(unused)} patterns match nothing: {', '.join(unused[:_SAMPLES])}"
            notice = Notice(code="pattern-unused", detail=f"{detail}; expected each to match")
            self._account.notices["pattern-unused"] = NoticeCount(len(unused), notice)

    def _note_parents(self) -> None:
        """Add a notice about ACLs that documents of earlier runs may inherit.

        A tree sends the files below a folder again when its permissions change, and a job sends new
        decisions.
        """
        settings = self._settings
        has_decisions = settings.kept_acls is not None and settings.target_format.needs_decisions
        if settings.target.feedtype == FULL or settings.sources or has_decisions:
            return
        self._note_acls(
            "acl-parents",
            count_parents,
            "{0:,} ACLs from which others may inherit, such as that of {1!r}; documents that"
            " earlier runs have sent keep the ACLs that they were sent with: send them again if one"
            " of these has changed",
        )

    def _note_alone(self) -> None:
        """Add a notice about ACLs alone of a run whose next runs do not know them."""
        settings = self._settings
        if settings.kept_acls is not None or not settings.target_format.needs_decisions:
            return
        self._note_acls(
            "acls-not-kept",
            count_alone,
            "{0:,} ACLs that arrived alone, such as that of {1!r}; a later conversion does not know"
            " them, and shows their documents to everyone if these come without an ACL: convert"
            " feeds of several days as a job, which keeps ACLs",
        )

    def _note_acls(self, code: str, count_of: Callable[[Path], tuple[int, str]], text: str) -> None:
        """Add a notice about stored ACLs that are counted; the text has their count and a URL."""
        for path in self._settings.steps.stored_acls(self._folder):
            count, example = count_of(path)
            if count:
                notice = Notice(code=code, detail=text.format(count, example))
                self._account.notices[code] = NoticeCount(count, notice)


def add_rejects_of_groups(account: Account, settings: Settings) -> None:
    """Add the rejects of the groups that steps have read to the account of all spans."""
    known = settings.known_rejects
    for path in map(rejects_path, settings.steps.stored_acls(settings.local)):
        if not path.exists():
            continue
        status = path.stat()
        file = SpanFile(
            path=path.name,
            bytes=status.st_size,
            sha256=digest_of(path),
            modified_ns=status.st_mtime_ns,
        )
        account.files = [*account.files, file]
        for reject in read_rejects(path):
            action, is_accepted = reject.action or UNREADABLE_ACTION, entry_of(reject) in known
            for counts, key in (
                (account.read, action),
                (account.rejected, action),
                (account.reject_codes, reject.code),
                *([(account.accepted_rejects, reject.code)] if is_accepted else []),
            ):
                counts[key] = counts.get(key, 0) + 1
            add_reject_sample(account.reject_samples, reject, is_accepted=is_accepted)


def sees_all_records(account: Account) -> bool:
    """Whether steps were applied to all records of the source, and none was rejected."""
    return bool(account.read) and not account.reject_codes and UNCHANGED not in account.filter_codes


def _write(path: Path, head: tuple[str, ...], rows: _Rows) -> None:
    """Write a CSV file; without rows, there is none."""
    text = iter(rows)
    first = next(text, None)
    if first is None:
        return
    with whole_file(path) as stream, io.TextIOWrapper(stream, "utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(head)
        writer.writerow(first)
        writer.writerows(text)
