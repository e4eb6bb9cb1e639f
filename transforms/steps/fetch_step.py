"""`fetch`: a URL that is to be crawled becomes a document with content.

Requests run in threads. The window of records that are begun is bounded, in number and in bytes,
and records leave the step in their order.

**Spec** (of robots.txt): RFC 9309. A file that does not exist allows everything; one that cannot be
read forbids everything.
"""

import time
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from email.utils import format_datetime
from functools import lru_cache
from ipaddress import ip_network
from threading import Lock, Semaphore

import httpx2
from msgspec.structs import replace

from feedferry.schemas.errors import RecordError
from feedferry.schemas.feed import FULL, INCREMENTAL, is_web
from feedferry.schemas.record import Action, Arrival, Content, Crawl, Record
from feedferry.schemas.reject import Filtered
from feedferry.schemas.sent_document import UNCHANGED
from feedferry.transforms.config.secrets import resolve
from feedferry.transforms.content_types.charset import find_charset
from feedferry.transforms.content_types.detection import UNKNOWN, detect
from feedferry.transforms.formats.text.dates import parse_date
from feedferry.transforms.net.retry import RetryPauses, RetryPolicy
from feedferry.transforms.net.web_client import (
    AGENT,
    GONE,
    FetchError,
    LinkedDocument,
    WebClient,
    WebLimits,
    is_public,
    public_url,
)
from feedferry.transforms.steps.fetch_rules import BEARER, FetchRules
from feedferry.transforms.steps.patterns import any_pattern
from feedferry.transforms.steps.robots import RobotRules
from feedferry.transforms.steps.step import TransformStep

MAX_HELD_BYTES = 64 << 20
"""The bytes of fetched documents above which no further record is begun."""

_MAX_HOSTS = 10_000
_MAX_PAUSE_SECONDS = 300.0
_DENIED = (401, 403, 407)
_ROBOTS = "/robots.txt"
_SCHEMES = ("http://", "https://")
_FOUND_NO_ROBOTS = range(400, 500)


class FetchStep(TransformStep):
    """Fetches the documents of records without content that are to be crawled."""

    is_waiting = True

    def __init__(self, rules: FetchRules, *, sleep: Callable[[float], object] = time.sleep) -> None:
        self._rules = rules
        self._sleep = sleep
        networks = [ip_network(text) for text in rules.networks]
        self._is_host = any_pattern(rules.hosts) if rules.hosts else None
        self._credentials = {
            host: _authorization(resolve(text)) for host, text in rules.credentials.items()
        }
        self._client = WebClient(
            WebLimits(rules.timeout, rules.max_bytes, "max_bytes of the step"),
            check_hop=self._check_hop,
            is_allowed=lambda address: (
                is_public(address) or any(address in network for network in networks)
            ),
        )
        self._gates_lock = Lock()
        self._gate_of = lru_cache(_MAX_HOSTS)(lambda host: _HostGate(rules.per_host))
        self._robots_of = lru_cache(_MAX_HOSTS)(self._read_robots)
        self._pool: ThreadPoolExecutor | None = None
        self._begun: dict[int, Future[LinkedDocument | RecordError | None]] = {}

    @property
    def is_full(self) -> bool:
        held = sum(map(_held_bytes, self._begun.values()))
        return len(self._begun) >= 2 * self._rules.parallel or held > MAX_HELD_BYTES

    def begin(self, record: Record) -> bool:
        if not _is_to_fetch(record):
            return False
        self._pool = self._pool or ThreadPoolExecutor(self._rules.parallel, "fetch")
        self._begun[id(record)] = self._pool.submit(self._outcome, record)
        return True

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def apply(self, record: Record) -> Record | Filtered:
        if not _is_to_fetch(record):
            return record
        begun = self._begun.pop(id(record), None)
        outcome = self._outcome(record) if begun is None else begun.result()
        if outcome is None:
            return Filtered(code=UNCHANGED, url=record.url, action=record.action.value)
        if isinstance(outcome, LinkedDocument):
            return _with_document(record, outcome)
        status = outcome.status if isinstance(outcome, FetchError) else 0
        if status in GONE:
            if self._rules.gone == "delete":
                return Record(url=record.url, action=Action.DELETE, provenance=record.provenance)
            raise RecordError("fetch-gone", outcome.reason)
        if status in _DENIED:
            expected = "expected credentials of the host in the step"
            raise RecordError("fetch-denied", f"{outcome.reason}; {expected}")
        raise outcome

    def _outcome(self, record: Record) -> LinkedDocument | RecordError | None:
        """Return the document of a record, None if it is unchanged, or why there is none."""
        try:
            return self._attempt(lambda: self._get(record.url, self._conditions(record)))
        except RecordError as exc:
            return exc

    def _attempt(self, get: Callable[[], LinkedDocument | None]) -> LinkedDocument | None:
        """Get a document, again after temporary errors."""
        pauses = RetryPauses(RetryPolicy(max_attempts=self._rules.attempts))
        while True:
            try:
                return get()
            except FetchError as exc:
                after = exc.retry_seconds
                asked = None if after is None else min(after, _MAX_PAUSE_SECONDS)
                seconds = pauses.next_seconds(at_least=asked) if exc.is_temporary else None
                if seconds is None:
                    raise
            self._sleep(seconds)

    def _get(self, url: str, headers: dict[str, str]) -> LinkedDocument | None:
        """Get a URL when its host may get a request."""
        host = url.partition("://")[2].partition("/")[0].lower()
        with self._gates_lock:  # all threads have the same gate
            gate = self._gate_of(host)
        with gate.places:
            if self._rules.pause:
                self._sleep(gate.wait_seconds(self._rules.pause))
            return self._client.get(url, headers)

    def _conditions(self, record: Record) -> dict[str, str]:
        """Return the headers of a conditional request.

        A full feed deletes what it leaves out, so that its unchanged documents are fetched.
        """
        if not self._rules.conditional or record.provenance.feedtype == FULL:
            return {}
        headers = {}
        for meta in record.metadata:
            if meta.name.lower() == "etag" and meta.value.isascii() and meta.value.isprintable():
                headers["If-None-Match"] = meta.value
        if record.modified is not None:
            headers["If-Modified-Since"] = format_datetime(record.modified, usegmt=True)
        return headers

    def _check_hop(self, request: httpx2.Request, first: httpx2.URL) -> None:
        """Raise RecordError for a host that is not allowed; set the credentials of the host."""
        url = request.url
        is_allowed = url.host == first.host if self._is_host is None else self._is_host(url.host)
        if not is_allowed:
            found = f"leads to {public_url(url)!r}" if url.host != first.host else "its host"
            expected = "expected a host that hosts of the step has"
            raise FetchError(first, found, code="fetch-refused", expected=expected)
        request.headers.pop("Authorization", None)
        authorization = self._credentials.get(url.netloc.decode("ascii").lower())
        if authorization and first.scheme in (url.scheme, "http"):  # never from https to http
            request.headers["Authorization"] = authorization
        if self._rules.robots == "obey" and first.path != _ROBOTS:
            origin = f"{url.scheme}://{url.netloc.decode('ascii')}"
            robots = self._robots_of(origin)
            if isinstance(robots, RecordError):
                raise RecordError(robots.code, robots.reason)
            if not robots.allows(url.raw_path.decode("ascii")):
                expected = "expected leave of the host, or robots: ignore"
                raise FetchError(
                    first, "forbidden by robots.txt", code="fetch-robots", expected=expected
                )

    def _read_robots(self, origin: str) -> RobotRules | RecordError:
        """Return the rules of a host; an error forbids all its documents."""
        try:
            document = self._attempt(lambda: self._client.get(f"{origin}{_ROBOTS}"))
        except FetchError as exc:
            if exc.status not in _FOUND_NO_ROBOTS:
                return exc
            document = None
        except RecordError as exc:
            return exc
        text = document.data.decode("utf-8-sig", "replace") if document else ""
        return RobotRules(text, AGENT)


class _HostGate:
    """The requests to one host: some at a time, and a pause between their beginnings."""

    def __init__(self, places: int) -> None:
        self.places = Semaphore(places)
        self._lock = Lock()
        self._next_at = 0.0

    def wait_seconds(self, pause_seconds: float) -> float:
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._next_at)
            self._next_at = begin + pause_seconds
            return begin - now


def _is_to_fetch(record: Record) -> bool:
    return (
        record.action is Action.ADD
        and record.arrival is not Arrival.PUSHED
        and record.content is None
        and record.body is None
        and record.url.strip().lower().startswith(_SCHEMES)
        and not (record.acl is not None and record.acl.alone)
    )


def _with_document(record: Record, document: LinkedDocument) -> Record:
    """Return a record with its content, and the type, charset and date of the response."""
    data, mimetype, charset = document.data, document.mimetype, document.charset
    if mimetype is None:
        detected = detect(document.file_name, data, charset=charset)
        is_known = detected.mimetype != UNKNOWN
        mimetype = detected.mimetype if is_known else record.mimetype or UNKNOWN
    modified = parse_date(document.modified) if document.modified else None
    at = record.provenance
    if is_web(at.datasource, at.feedtype):  # a feed whose contents an appliance would ignore
        name = None if is_web(at.datasource, None) else at.datasource
        at = replace(at, datasource=name, feedtype=INCREMENTAL)
    crawl = record.crawl
    if document.needs_login and record.acl is None:  # as a file that others may not read
        crawl = replace(crawl or Crawl(), secure=True)
    return replace(
        record,
        arrival=Arrival.PUSHED,
        content=Content(data),
        mimetype=mimetype,
        charset=find_charset(data, mimetype=mimetype, stated=charset),
        size=None,
        modified=modified or record.modified,
        crawl=crawl,
        provenance=at,
    )


def _authorization(secret: str) -> str:
    if secret.startswith(BEARER):
        return secret
    return f"Basic {b64encode(secret.encode()).decode('ascii')}"


def _held_bytes(future: Future[LinkedDocument | RecordError | None]) -> int:
    if not future.done() or future.exception() is not None:
        return 0
    outcome = future.result()
    return len(outcome.data) if isinstance(outcome, LinkedDocument) else 0
