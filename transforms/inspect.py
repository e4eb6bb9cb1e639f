"""Count everything that is found in an input.

Memory is constant, except for distinct groups and the URLs that are compared: an 8-byte digest of
each, for at most 20 million URLs, which takes 160 MB. Of names that a stream can invent (MIME
types, charsets, feeds, namespaces), the first thousand are counted one by one, the others together.
"""

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from feedferry.schemas.account import REJECT_SAMPLES
from feedferry.schemas.acl import DEFAULT_NAMESPACE, Acl
from feedferry.schemas.feed import FeedHeader
from feedferry.schemas.membership import Membership
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Action, Record
from feedferry.schemas.reject import Filtered, Reject, defect_type
from feedferry.transforms.formats import ReadResult
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock
from feedferry.transforms.formats.holding.values import notices as value_notices
from feedferry.transforms.rules.group_references import GroupReferences, Groups
from feedferry.transforms.rules.normalize import normalize

MAX_NAMES = 1000
"""The most names of a kind that are counted one by one."""
MAX_NAME_CHARS = 200
"""The most characters that are kept of a name."""
MAX_URLS = 20_000_000
"""The most URLs that later URLs are compared with."""

OTHERS = "(others)"

_BUCKET_BYTES = 2
_REST_BYTES = 6


class CodeCount(msgspec.Struct, kw_only=True):
    """How often a code occurred, and the message of its first occurrence; of rejects some more."""

    count: int = 0
    first: str = ""
    more: list[str] = []


class FeedCount(msgspec.Struct, frozen=True, kw_only=True):
    """The records of one feed by action, and its memberships."""

    datasource: str | None
    feedtype: str | None
    actions: dict[str, int]


class ContentSizes(msgspec.Struct, kw_only=True):
    """Bytes of contents as they are stored: base64 is not decoded."""

    documents: int = 0
    total: int = 0
    least: int = 0
    most: int = 0

    @property
    def mean(self) -> int:
        """The mean, rounded down; 0 without documents."""
        return self.total // self.documents if self.documents else 0

    def add(self, size: int) -> None:
        self.least = min(self.least, size) if self.documents else size
        self.most = max(self.most, size)
        self.documents += 1
        self.total += size


class AclCounts(msgspec.Struct, kw_only=True):
    """The ACLs of an input.

    `without` counts added documents without an ACL; an update that states none changes none.
    `alone` counts ACLs without a document, `barred` ACLs that permit no user and inherit nothing.
    The keys of `principals` are such as "PERMIT GROUP".
    """

    documents: int = 0
    without: int = 0
    alone: int = 0
    barred: int = 0
    principals: dict[str, int] = {}
    namespaces: dict[str, int] = {}


class DuplicateUrls(msgspec.Struct, kw_only=True):
    """Records that add a URL which an earlier record adds.

    `unremembered` counts added URLs that later URLs were not compared with: there were too many.
    """

    repeated: int = 0
    unremembered: int = 0


class InputCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of an input; names by frequency, feeds in the order of the input.

    `defects` counts the rejects that defects of feedferry caused, by the type of the exception.
    """

    feeds: tuple[FeedCount, ...] = ()
    rejects: dict[str, CodeCount] = {}
    notices: dict[str, CodeCount] = {}
    filtered: dict[str, int] = {}
    defects: dict[str, int] = {}
    content: ContentSizes = msgspec.field(default_factory=ContentSizes)
    mimetypes: dict[str, int] = {}
    charsets: dict[str, int] = {}
    acls: AclCounts = msgspec.field(default_factory=AclCounts)
    groups: Groups = Groups()
    duplicates: DuplicateUrls = msgspec.field(default_factory=DuplicateUrls)

    @property
    def has_findings(self) -> bool:
        """Whether there are rejects, or groups that no membership of the input defines.

        Without any memberships, groups are defined elsewhere.
        """
        return bool(self.rejects or (self.groups.memberships and self.groups.undefined))


def count(results: Iterable[ReadResult], *, max_urls: int = MAX_URLS) -> InputCounts:
    """Return the counts of all results."""
    counter = _InputCounter(max_urls)
    for result in results:
        counter.add(result)
    return counter.close()


class _InputCounter:
    def __init__(self, max_urls: int) -> None:
        self._feeds: dict[tuple[str | None, str | None], Counter[str]] = {}
        self._rejects: dict[str, CodeCount] = {}
        self._notices: dict[str, CodeCount] = {}
        self._filtered: Counter[str] = Counter()
        self._defects: Counter[str] = Counter()
        self._content = ContentSizes()
        self._mimetypes = _NameCounter()
        self._charsets = _NameCounter()
        self._acls = AclCounts()
        self._principals: Counter[str] = Counter()
        self._namespaces = _NameCounter()
        self._groups = GroupReferences()
        self._urls = _UrlSet(max_urls)

    def add(self, result: ReadResult) -> None:
        if isinstance(result, Record):
            record = normalize(result)
            self._add_record(result, record.acl)
            for notice in value_notices(record):
                _add_code(self._notices, notice)
        elif isinstance(result, RecordBatch | ElementBlock):
            for record in result:
                self.add(record)
        elif isinstance(result, Membership):
            self._count_in_feed(result)
            self._groups.define(result)
        elif isinstance(result, Filtered):
            self._filtered[result.code] += 1
        elif isinstance(result, Reject):
            _add_code(self._rejects, result, samples=REJECT_SAMPLES)
            if (defect := defect_type(result)) is not None:
                self._defects[defect] += 1
        elif isinstance(result, FeedHeader):
            self._counter_of(result.datasource, result.feedtype)
        elif isinstance(result, Notice):
            _add_code(self._notices, result)

    def close(self) -> InputCounts:
        self._acls.principals = _by_frequency(self._principals)
        self._acls.namespaces = self._namespaces.by_frequency()
        return InputCounts(
            feeds=tuple(
                FeedCount(datasource=datasource, feedtype=feedtype, actions=dict(actions))
                for (datasource, feedtype), actions in self._feeds.items()
            ),
            rejects=dict(sorted(self._rejects.items())),
            notices=dict(sorted(self._notices.items())),
            filtered=dict(sorted(self._filtered.items())),
            defects=dict(sorted(self._defects.items())),
            content=self._content,
            mimetypes=self._mimetypes.by_frequency(),
            charsets=self._charsets.by_frequency(),
            acls=self._acls,
            groups=self._groups.close(),
            duplicates=self._urls.duplicates,
        )

    def _add_record(self, record: Record, acl: Acl | None) -> None:
        """Count a record, with the ACL that targets take from it."""
        self._count_in_feed(record)
        if record.content is not None:
            self._content.add(len(record.content.data))
        if record.mimetype is not None:
            self._mimetypes.add(record.mimetype)
        if record.charset is not None:
            self._charsets.add(record.charset)
        if acl is not None:
            self._add_acl(acl)
        if record.action is Action.ADD:
            self._acls.without += acl is None
            self._urls.add(record.url)

    def _count_in_feed(self, record: Record | Membership) -> None:
        feed = self._counter_of(record.provenance.datasource, record.provenance.feedtype)
        feed[record.action._value_] += 1  # twice as fast as `value`

    def _counter_of(self, datasource: str | None, feedtype: str | None) -> Counter[str]:
        """Return the counter of a feed; a feed without records has one too."""
        key = (datasource, feedtype)
        if key not in self._feeds:
            if len(self._feeds) >= MAX_NAMES:
                key = (OTHERS, None)
            self._feeds.setdefault(key, Counter())
        return self._feeds[key]

    def _add_acl(self, acl: Acl) -> None:
        if acl.alone:
            self._acls.alone += 1
        else:
            self._acls.documents += 1
        self._acls.barred += acl.permits_nobody
        for principal in acl.principals:
            self._principals[f"{principal.access._value_} {principal.scope._value_}"] += 1
            self._namespaces.add(principal.namespace or DEFAULT_NAMESPACE)
            self._groups.name(principal)


class _NameCounter:
    """Counts by names that a stream can invent."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, name: str) -> None:
        name = name[:MAX_NAME_CHARS]
        if name not in self._counts and len(self._counts) >= MAX_NAMES:
            name = OTHERS
        self._counts[name] += 1

    def by_frequency(self) -> dict[str, int]:
        """Return the counts in descending order; the count of other names comes last."""
        counts = self._counts.copy()
        others = counts.pop(OTHERS, 0)
        return _by_frequency(counts) | ({OTHERS: others} if others else {})


class _UrlSet:
    """A set of URLs that cannot be listed; two are confused about once in 100,000 full sets.

    A URL takes 6 bytes and some room to grow, a tenth of its size in a set of Python: digests with
    the same first bytes are stored in one of 65,536 buckets, without these bytes.
    """

    def __init__(self, max_urls: int) -> None:
        self.duplicates = DuplicateUrls()
        self._free = max_urls
        self._buckets = [bytearray() for _ in range(1 << (8 * _BUCKET_BYTES))]

    def add(self, url: str) -> None:
        """Add a URL if there is room; count it if it is in the set."""
        text = url.encode("utf-8", "surrogatepass")
        digest = blake2b(text, digest_size=_BUCKET_BYTES + _REST_BYTES).digest()
        bucket = self._buckets[int.from_bytes(digest[:_BUCKET_BYTES], "big")]
        suffix = digest[_BUCKET_BYTES:]
        if has_digest(bucket, suffix):
            self.duplicates.repeated += 1
        elif self._free:
            bucket += suffix
            self._free -= 1
        else:
            self.duplicates.unremembered += 1


def has_digest(bucket: bytearray, digest: bytes) -> bool:
    """Whether a digest is in a bucket of digests of the same length."""
    place = bucket.find(digest)
    while place >= 0 and place % len(digest):  # the end of one digest and the begin of another
        place = bucket.find(digest, place + 1)
    return place >= 0


def _by_frequency(counts: dict[str, int]) -> dict[str, int]:
    """Return the counts in descending order, equal counts by name."""
    return dict(sorted(counts.items(), key=lambda named: (-named[1], named[0])))


def _add_code(counts: dict[str, CodeCount], item: Reject | Notice, *, samples: int = 1) -> None:
    known = counts.get(item.code)
    if known is None:
        known = counts[item.code] = CodeCount(first=item.message)
    elif len(known.more) < samples - 1:
        known.more.append(item.message)
    known.count += 1
