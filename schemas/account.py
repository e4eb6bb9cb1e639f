"""The account of a run: counts of records, losses and notices, and the files written."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

import msgspec

from feedferry.schemas.errors import BalanceError
from feedferry.schemas.feed import FullFeed, Hole
from feedferry.schemas.notice import Loss, Notice
from feedferry.schemas.receipt import ChunkState
from feedferry.schemas.reject import Reject, message_of
from feedferry.schemas.span import Span

COUNTERS = (
    *("read", "expanded", "written", "rejected", "filtered"),
    *("reject_codes", "accepted_rejects", "filter_codes", "changed", "defects"),
)
"""The fields of an Account that count records by action, code or exception type."""

SAMPLES = 5
"""Losses of a field that are kept as examples."""

REJECT_SAMPLES = 3
"""Rejects of a code that are kept as examples."""


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """A finished chunk file, as a line of the manifest.

    `records` counts records per action, `members` the members of groups. `path` is relative to the
    folder of the run. The chunk must be sent with `feedtype`. `requested_feedtype` is the feedtype
    of the feed that the chunk belongs to; `origin` is the source of that feed if a run has several.
    `note` is a hint for the person who pushes the chunk. `state`, `attempts` and `reply` describe
    its push.
    """

    ordinal: int = 0
    path: str
    bytes: int
    sha256: str
    records: dict[str, int]
    first_url: str
    last_url: str
    source: str
    span: int
    format: str | None = None
    datasource: str | None = None
    feedtype: str | None = None
    requested_feedtype: str | None = msgspec.field(default=None, name="asked")
    origin: str | None = None
    members: int = 0
    note: str | None = None
    state: ChunkState = ChunkState.READY
    attempts: int = 0
    reply: str | None = None


class SpanFile(msgspec.Struct, frozen=True, kw_only=True):
    """A complete file that the conversion of a span wrote to the folder of an unfinished run.

    `path` is relative to that folder. `modified_ns` is the time at which the writer closed the
    file, 0 if its storage does not have it. A file with the same time and size has not changed
    since.
    """

    path: str
    bytes: int
    sha256: str
    modified_ns: int = 0


class LossCount(msgspec.Struct, frozen=True):
    """The number of losses of a field, and the first few of them."""

    count: int = 0
    samples: tuple[Loss, ...] = ()


class NoticeCount(msgspec.Struct, frozen=True):
    """The number of notices with a code, and the first of them."""

    count: int
    first: Notice


class RejectSample(msgspec.Struct, frozen=True, kw_only=True):
    """A reject as an example of its code, without its bytes."""

    source: str = ""
    line: int = 0
    offset: int = 0
    key: str | None = None
    url: str | None = None
    reason: str = ""
    is_accepted: bool = False

    @property
    def message(self) -> str:
        """The reject as one line: *where: finding; expected …*."""
        return message_of(self.source, self.line, self.offset, self.key, self.reason)


class AccountTotals(msgspec.Struct, kw_only=True):
    """Counts of records per action, as `report.json` has them.

    `expanded` counts the additional records of a record that became several, such as a deletion by
    pattern. `changed` counts the records that each step of the user has changed; those that a step
    filters are in `filter_codes`, by its name. `defects` counts rejects caused by defects of
    feedferry, by exception type.

    `accepted_rejects` counts the rejects, by code, that a list of known rejects has; they are in
    `rejected` too. `reject_samples` are the first rejects of each code, new ones before accepted
    ones, then in the order of their places.
    """

    read: dict[str, int] = {}
    expanded: dict[str, int] = {}
    written: dict[str, int] = {}
    rejected: dict[str, int] = {}
    filtered: dict[str, int] = {}
    reject_codes: dict[str, int] = {}
    accepted_rejects: dict[str, int] = {}
    reject_samples: dict[str, tuple[RejectSample, ...]] = {}
    filter_codes: dict[str, int] = {}
    changed: dict[str, int] = {}
    defects: dict[str, int] = {}
    losses: dict[str, LossCount] = {}
    notices: dict[str, NoticeCount] = {}
    spans: int = 0
    bytes_read: int = 0

    @property
    def new_rejects(self) -> int:
        """Return the number of rejects that no list of known rejects has."""
        return sum(self.rejected.values()) - sum(self.accepted_rejects.values())


class Account(AccountTotals, kw_only=True):
    """The account of one span or of many; `merge` adds them up.

    `files` are all files of the spans: chunks, rejects and lists. Of spans whose accounts are
    `stored`, there are only the names of these. `bytes_stored` counts the bytes of compressed files
    as they are stored. `stopped` is the reason why a span is not finished; `exit_code` is then the
    exit code of the run.

    `full_feeds` are the full feeds read, `holes` the rejects that may be of them. `next` is the
    span that begins where a span with a grid has ended.
    """

    full_feeds: list[FullFeed] = []
    holes: list[Hole] = []
    chunks: Sequence[Chunk] = []
    files: Sequence[SpanFile] = []
    stored: Sequence[str] = []
    bytes_stored: int = 0
    stopped: str | None = None
    exit_code: int = 0
    next: Span | None = None

    @property
    def other_files(self) -> list[SpanFile]:
        """The files that are no chunks."""
        chunks = {chunk.path for chunk in self.chunks}
        return [file for file in self.files if file.path not in chunks]


def merge(accounts: Iterable[Account]) -> Account:
    """Return the sum; chunks, files and samples are in the order of the spans' names."""
    total = Account()
    chunks: list[Chunk] = []
    files: list[SpanFile] = []
    stored: list[str] = []
    counters = {name: Counter[str]() for name in COUNTERS}
    for account in accounts:
        for name, counter in counters.items():
            counter.update(getattr(account, name))
        for field, loss in account.losses.items():
            _add_losses(total.losses, field, loss)
        for code, samples in account.reject_samples.items():
            for sample in samples:
                _add_sample(total.reject_samples, code, sample)
        for notice_count in account.notices.values():
            _add_notices(total.notices, notice_count)
        total.full_feeds += account.full_feeds
        total.holes += account.holes
        chunks += account.chunks
        files += account.files
        stored += account.stored
        total.spans += account.spans
        total.bytes_read += account.bytes_read
        total.bytes_stored += account.bytes_stored
        if (account.exit_code, account.stopped or "") > (total.exit_code, total.stopped or ""):
            total.exit_code, total.stopped = account.exit_code, account.stopped
    for name, counter in counters.items():
        setattr(total, name, dict(sorted(counter.items())))
    total.reject_samples = dict(sorted(total.reject_samples.items()))
    total.full_feeds.sort(key=lambda feed: (feed.span, feed.datasource or ""))
    total.holes.sort(key=lambda hole: (hole.span, hole.source, hole.datasource or ""))
    total.chunks = sorted(chunks, key=place_of)
    total.files = sorted(files, key=attrgetter("path"))
    total.stored = sorted(stored)
    return total


def add_loss(losses: dict[str, LossCount], loss: Loss, *, count: int = 1) -> None:
    """Count a loss; the first few losses of a field become samples."""
    known = losses.get(loss.field, LossCount())
    samples = known.samples if len(known.samples) >= SAMPLES else (*known.samples, loss)
    losses[loss.field] = LossCount(known.count + count, samples)


def has_samples(losses: Mapping[str, LossCount], field: str) -> bool:
    """Whether more losses of a field are only counted."""
    return field in losses and len(losses[field].samples) >= SAMPLES


def add_notice(notices: dict[str, NoticeCount], notice: Notice, *, count: int = 1) -> None:
    """Count a notice, by its code."""
    known = notices.get(notice.code, NoticeCount(0, notice))
    notices[notice.code] = NoticeCount(known.count + count, known.first)


def add_reject_sample(
    samples: dict[str, tuple[RejectSample, ...]], reject: Reject, *, is_accepted: bool = False
) -> None:
    """Keep a reject as an example if it is among the first few of its code."""
    sample = RejectSample(
        source=reject.source,
        line=reject.line,
        offset=reject.offset,
        key=reject.key,
        url=reject.url,
        reason=reject.reason,
        is_accepted=is_accepted,
    )
    _add_sample(samples, reject.code, sample)


def check_balance(account: Account) -> None:
    """Raise BalanceError unless every record read was written, rejected or filtered."""
    read = Counter(account.read) + Counter(account.expanded)
    accounted = Counter(account.written) + Counter(account.rejected) + Counter(account.filtered)
    if read.total() != accounted.total():
        raise BalanceError(
            f"{read.total()} records read, but {accounted.total()} written, rejected and filtered: "
            "a defect of feedferry; nothing of this run is published"
        )


def place_of(chunk: Chunk) -> tuple[str, int, str]:
    """Return the sort key of a chunk: its span, then its number.

    Numbers are compared as integers, because a number may have more digits than its padding.
    """
    _, _, name = chunk.path.rpartition("/")
    span, _, end = name.rpartition("-")
    number, _, _ = end.partition(".")
    return span, int(number) if number.isdecimal() else 0, end


def _add_losses(total: dict[str, LossCount], field: str, added: LossCount) -> None:
    known = total.get(field, LossCount())
    samples = {*known.samples, *added.samples}
    ordered = sorted(samples, key=lambda loss: (loss.url, loss.detail))
    total[field] = LossCount(known.count + added.count, tuple(ordered[:SAMPLES]))


def _add_sample(
    samples: dict[str, tuple[RejectSample, ...]], code: str, sample: RejectSample
) -> None:
    known = samples.get(code, ())
    if len(known) == REJECT_SAMPLES and _sample_key(sample) >= _sample_key(known[-1]):
        return
    samples[code] = tuple(sorted((*known, sample), key=_sample_key)[:REJECT_SAMPLES])


def _sample_key(sample: RejectSample) -> tuple[bool, str, int, str, str]:
    place = sample.source, sample.offset, sample.url or "", sample.reason
    return sample.is_accepted, *place


def _add_notices(total: dict[str, NoticeCount], added: NoticeCount) -> None:
    known = total.get(added.first.code, NoticeCount(0, added.first))
    first = min(known.first, added.first, key=lambda note: (note.source, note.span, note.offset))
    total[first.code] = NoticeCount(known.count + added.count, first)
