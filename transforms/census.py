"""What there is in an input: counts of all that its readers find.

Memory is constant but for distinct groups, and for the urls that are looked at twice: of each, a
digest of 8 bytes is kept, of at most 20 million urls, which takes 160 MB. Names that a stream can
make up (MIME types, charsets, feeds, namespaces) are counted for the first thousand of them, the
rest together.
"""

from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from schemas.acl import Access, Acl
from schemas.defect import defect_type
from schemas.feed import FeedHeader
from schemas.membership import Membership
from schemas.notice import Notice
from schemas.record import Action, Record
from schemas.reject import Filtered, Reject
from transforms.formats import ReadResult
from transforms.group_references import DEFAULT_NAMESPACE, GroupReferences, Groups
from transforms.values import notices as value_notices

MAX_NAMES = 1000
"""Most names of a kind that are counted one by one."""
MAX_NAME_CHARS = 200
"""Most characters of a name that are kept, where a stream can make it up."""
MAX_URLS = 20_000_000
"""Most urls that are remembered."""

OTHERS = "(others)"

_BUCKET_BYTES = 2
_REST_BYTES = 6


class Coded(msgspec.Struct, kw_only=True):
    """How often a code came, and the message of the first time."""

    count: int = 0
    first: str = ""


class FeedCount(msgspec.Struct, frozen=True, kw_only=True):
    """Records of one feed by action, and its memberships."""

    datasource: str | None
    feedtype: str | None
    actions: dict[str, int]


class Sizes(msgspec.Struct, kw_only=True):
    """Bytes of the contents, as they are stored: in their base64, if they have one."""

    documents: int = 0
    total: int = 0
    least: int = 0
    most: int = 0

    @property
    def mean(self) -> int:
        """The mean, rounded down; 0 if there are none."""
        return self.total // self.documents if self.documents else 0


class Acls(msgspec.Struct, kw_only=True):
    """What is said of who may see documents.

    `without` counts what is added without an ACL: an update that states none changes none.
    `barred` counts ACLs that permit nobody and inherit from nothing. `principals` has keys such as
    "PERMIT GROUP".
    """

    documents: int = 0
    without: int = 0
    alone: int = 0
    barred: int = 0
    principals: dict[str, int] = {}
    namespaces: dict[str, int] = {}


class Duplicates(msgspec.Struct, kw_only=True):
    """Records that add a url which one before them adds.

    `unremembered` counts those of which that cannot be told of later ones: there were too many.
    """

    repeated: int = 0
    unremembered: int = 0


class Census(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of an input; names stand the most frequent first, feeds as they came.

    `defects` counts the rejects that defects of feedferry caused, by the type of the exception.
    """

    feeds: tuple[FeedCount, ...] = ()
    rejects: dict[str, Coded] = {}
    notices: dict[str, Coded] = {}
    filtered: dict[str, int] = {}
    defects: dict[str, int] = {}
    content: Sizes = msgspec.field(default_factory=Sizes)
    mimetypes: dict[str, int] = {}
    charsets: dict[str, int] = {}
    acls: Acls = msgspec.field(default_factory=Acls)
    groups: Groups = Groups()
    duplicates: Duplicates = msgspec.field(default_factory=Duplicates)

    @property
    def has_findings(self) -> bool:
        """Whether there are rejects, or groups named that no membership of the input defines.

        Where there are no memberships at all, groups are defined elsewhere.
        """
        return bool(self.rejects or (self.groups.memberships and self.groups.undefined))


def count(found: Iterable[ReadResult]) -> Census:
    """Return the counts of all that is found; it is read once, one after the other."""
    counter = _Counter()
    for one in found:
        counter.take(one)
    return counter.close()


def holds(bucket: bytearray, digest: bytes) -> bool:
    """Whether a digest is one of those of its length that stand side by side in a bucket."""
    place = bucket.find(digest)
    while place >= 0 and place % len(digest):  # the end of one and the start of another
        place = bucket.find(digest, place + 1)
    return place >= 0


class _Counter:
    """The counts while they grow."""

    def __init__(self) -> None:
        self._feeds: dict[tuple[str | None, str | None], Counter[str]] = {}
        self._rejects: dict[str, Coded] = {}
        self._notices: dict[str, Coded] = {}
        self._filtered: Counter[str] = Counter()
        self._defects: Counter[str] = Counter()
        self._content = Sizes()
        self._mimetypes = _Tally()
        self._charsets = _Tally()
        self._acls = Acls()
        self._principals: Counter[str] = Counter()
        self._namespaces = _Tally()
        self._groups = GroupReferences()
        self._urls = _Urls(MAX_URLS)

    def take(self, one: ReadResult) -> None:
        if isinstance(one, Record):
            self._take_record(one)
            for notice in value_notices(one):
                _add_coded(self._notices, notice)
        elif isinstance(one, Membership):
            self._count_in_feed(one)
            self._groups.define(one)
        elif isinstance(one, Filtered):
            self._filtered[one.code] += 1
        elif isinstance(one, Reject):
            _add_coded(self._rejects, one)
            if (defect := defect_type(one)) is not None:
                self._defects[defect] += 1
        elif isinstance(one, FeedHeader):
            self._feed_of(one.datasource, one.feedtype)
        else:
            _add_coded(self._notices, one)

    def close(self) -> Census:
        self._acls.principals = _ranked(self._principals)
        self._acls.namespaces = self._namespaces.ranked()
        return Census(
            feeds=tuple(
                FeedCount(datasource=datasource, feedtype=feedtype, actions=dict(actions))
                for (datasource, feedtype), actions in self._feeds.items()
            ),
            rejects=dict(sorted(self._rejects.items())),
            notices=dict(sorted(self._notices.items())),
            filtered=dict(sorted(self._filtered.items())),
            defects=dict(sorted(self._defects.items())),
            content=self._content,
            mimetypes=self._mimetypes.ranked(),
            charsets=self._charsets.ranked(),
            acls=self._acls,
            groups=self._groups.close(),
            duplicates=self._urls.duplicates,
        )

    def _take_record(self, record: Record) -> None:
        self._count_in_feed(record)
        if record.content is not None:
            _add_size(self._content, len(record.content.data))
        if record.mimetype is not None:
            self._mimetypes.add(record.mimetype)
        if record.charset is not None:
            self._charsets.add(record.charset)
        if record.acl is not None:
            self._take_acl(record.acl)
        if record.action is Action.ADD:
            self._acls.without += record.acl is None
            self._urls.add(record.url)

    def _count_in_feed(self, one: Record | Membership) -> None:
        feed = self._feed_of(one.provenance.datasource, one.provenance.feedtype)
        feed[one.action._value_] += 1  # twice as fast as `value`

    def _feed_of(self, datasource: str | None, feedtype: str | None) -> Counter[str]:
        """Return the counts of a feed, which has a row even where it has no record."""
        key = (datasource, feedtype)
        if key not in self._feeds:
            if len(self._feeds) >= MAX_NAMES:
                key = (OTHERS, None)
            self._feeds.setdefault(key, Counter())
        return self._feeds[key]

    def _take_acl(self, acl: Acl) -> None:
        if acl.alone:
            self._acls.alone += 1
        else:
            self._acls.documents += 1
        permits = False
        for principal in acl.principals:
            permits |= principal.access is Access.PERMIT
            self._principals[f"{principal.access._value_} {principal.scope._value_}"] += 1
            self._namespaces.add(principal.namespace or DEFAULT_NAMESPACE)
            self._groups.name(principal)
        if not permits and acl.inherit_from is None:
            self._acls.barred += 1


class _Tally:
    """Counts by names that a stream can make up."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, name: str) -> None:
        name = name[:MAX_NAME_CHARS]
        if name not in self._counts and len(self._counts) >= MAX_NAMES:
            name = OTHERS
        self._counts[name] += 1

    def ranked(self) -> dict[str, int]:
        """The counts, the greatest first, and all the others last."""
        counts = self._counts.copy()
        others = counts.pop(OTHERS, 0)
        return _ranked(counts) | ({OTHERS: others} if others else {})


class _Urls:
    """A set of urls that cannot be listed; two are taken for one about once in 100,000 full sets.

    It takes 6 bytes for each, and some room to grow, where a set of Python takes ten times that:
    digests that begin alike stand side by side in one of 65,536 buckets, without that beginning.
    """

    def __init__(self, limit: int) -> None:
        self.duplicates = Duplicates()
        self._left = limit
        self._buckets = [bytearray() for _ in range(1 << (8 * _BUCKET_BYTES))]

    def add(self, url: str) -> None:
        """Remember a url, if there is room; count it if it was there before."""
        text = url.encode("utf-8", "surrogatepass")
        digest = blake2b(text, digest_size=_BUCKET_BYTES + _REST_BYTES).digest()
        bucket = self._buckets[int.from_bytes(digest[:_BUCKET_BYTES], "big")]
        rest = digest[_BUCKET_BYTES:]
        if holds(bucket, rest):
            self.duplicates.repeated += 1
        elif self._left:
            bucket += rest
            self._left -= 1
        else:
            self.duplicates.unremembered += 1


def _ranked(counts: dict[str, int]) -> dict[str, int]:
    """The counts, the greatest first; those that are equal by name."""
    return dict(sorted(counts.items(), key=lambda named: (-named[1], named[0])))


def _add_coded(counts: dict[str, Coded], one: Reject | Notice) -> None:
    known = counts.get(one.code)
    if known is None:
        known = counts[one.code] = Coded(first=one.message)
    known.count += 1


def _add_size(sizes: Sizes, size: int) -> None:
    sizes.least = min(sizes.least, size) if sizes.documents else size
    sizes.most = max(sizes.most, size)
    sizes.documents += 1
    sizes.total += size
