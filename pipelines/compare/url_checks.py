"""Whether documents are at their URLs, asked by HTTP, as events of a comparison.

A document is asked for by HEAD, or by GET if the server does not answer HEAD, or if its content is
to be compared. Redirects are followed on the same host only: another host answers for itself. 404
and 410 say that a document is not there. What says neither, such as 403 or a time-out, is a fault
of the event.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from urllib.parse import urljoin, urlsplit

import httpx2
import msgspec

from feedferry.schemas.errors import TargetError
from feedferry.schemas.record import Action, Provenance, Record
from feedferry.transforms.compare.events import Event
from feedferry.transforms.compare.history import Document
from feedferry.transforms.net.response_deadline import ResponseDeadline
from feedferry.transforms.net.retry import RetryPolicy, retry
from feedferry.transforms.net.web_client import AGENT, GONE, MAX_REDIRECTS, SCHEMES, TEMPORARY

_TIMEOUT_SECONDS = 30.0
_RESPONSE_SECONDS = 600.0
_AHEAD = 4
"""Requests that wait for each one that runs."""

_NO_HEAD = (405, 501)
_HEADERS = {"User-Agent": AGENT}
_POLICY = RetryPolicy(first_seconds=0.5, max_seconds=5.0, max_attempts=3)


class _UrlAnswer(msgspec.Struct, frozen=True):
    """The answer of a server about a URL; a `fault` leaves open whether it is there."""

    is_there: bool = False
    size: int | None = None
    digest: bytes | None = None
    fault: str | None = None


class _TemporaryError(Exception):
    """A request that may succeed when it is repeated."""


_MAY_SUCCEED = (_TemporaryError, httpx2.TransportError)


def url_events(
    documents: Iterable[Document], *, requests: int, reads_contents: bool
) -> Iterator[Event]:
    """Yield an event for each document that is there, or of which that is not known, in order.

    At most `requests` are asked for at a time; contents are compared if `reads_contents`. Raises
    TargetError if there is no answer for any.
    """
    first_fault, is_answered = "", False
    limits = httpx2.Limits(max_connections=requests)
    with (
        httpx2.Client(timeout=_TIMEOUT_SECONDS, limits=limits, headers=_HEADERS) as client,
        ThreadPoolExecutor(requests) as pool,
    ):
        ask = partial(_ask, client, reads_contents=reads_contents)
        begin = partial(pool.submit, ask)
        for document, answer in _answers(documents, begin, most=requests * _AHEAD):
            if answer.fault is None:
                is_answered = True
            else:
                first_fault = first_fault or f"{_url(document)}: {answer.fault}"
            if answer.is_there or answer.fault is not None:
                yield _event(document, answer)
    if first_fault and not is_answered:
        raise TargetError(f"{first_fault}; expected an answer to at least one request")


def _answers(
    documents: Iterable[Document], begin: Callable[[Document], Future[_UrlAnswer]], *, most: int
) -> Iterator[tuple[Document, _UrlAnswer]]:
    """Yield documents and answers, while at most `most` requests wait."""
    running: deque[tuple[Document, Future[_UrlAnswer]]] = deque()
    try:
        for document in documents:
            running.append((document, begin(document)))
            if len(running) > most:
                asked, answer = running.popleft()
                yield asked, answer.result()
        while running:
            asked, answer = running.popleft()
            yield asked, answer.result()
    finally:
        for _, answer in running:
            answer.cancel()


def _ask(client: httpx2.Client, document: Document, *, reads_contents: bool) -> _UrlAnswer:
    url = _url(document)
    if urlsplit(url).scheme.lower() not in SCHEMES:
        return _UrlAnswer(fault="not asked for; expected a URL of http or https")
    reads = reads_contents and document.digest is not None and not document.is_deleted
    ask = partial(_ask_once, client, url, reads=reads)
    try:
        return retry(ask, _POLICY, is_temporary=lambda exc: isinstance(exc, _MAY_SUCCEED))
    except (_TemporaryError, httpx2.HTTPError, httpx2.InvalidURL, ValueError) as exc:
        return _UrlAnswer(fault=str(exc) or type(exc).__name__)


def _ask_once(client: httpx2.Client, url: str, *, reads: bool) -> _UrlAnswer:
    method, at = "GET" if reads else "HEAD", url
    for _ in range(MAX_REDIRECTS + 1):
        answer = _request(client, method, at, reads=reads)
        if isinstance(answer, _UrlAnswer):
            return answer
        if not answer:
            method = "GET"
        elif _is_elsewhere(at, answer):
            return _UrlAnswer(fault=f"redirected to {answer}; expected the same host")
        else:
            at = answer
    return _UrlAnswer(fault=f"more than {MAX_REDIRECTS} redirects")


def _request(client: httpx2.Client, method: str, url: str, *, reads: bool) -> _UrlAnswer | str:
    """Return the answer, the URL of a redirect, or "" if the method is not allowed."""
    with (
        ResponseDeadline(_RESPONSE_SECONDS) as deadline,
        client.stream(method, url, extensions={"trace": deadline.trace}) as response,
    ):
        status, location = response.status_code, response.headers.get("Location")
        if status in GONE:
            return _UrlAnswer()
        if response.is_redirect and location:
            return urljoin(url, location)
        if method == "HEAD" and status in _NO_HEAD:
            return ""
        if status in TEMPORARY:
            raise _TemporaryError(f"status {status}")
        if not response.is_success:
            return _UrlAnswer(fault=f"status {status}")
        return _contents(response.iter_bytes()) if reads else _UrlAnswer(is_there=True)


def _contents(blocks: Iterable[bytes]) -> _UrlAnswer:
    size, digest = 0, sha256()
    for block in blocks:
        size += len(block)
        digest.update(block)
    return _UrlAnswer(is_there=True, size=size, digest=digest.digest())


def _is_elsewhere(url: str, to: str) -> bool:
    """Whether a redirect leaves the host; from http to https it stays there."""
    before, after = urlsplit(url), urlsplit(to)
    is_upgrade = (before.scheme, after.scheme) == ("http", "https")
    is_same_port = is_upgrade or (before.scheme, before.port) == (after.scheme, after.port)
    return before.hostname != after.hostname or not is_same_port


def _url(document: Document) -> str:
    if document.record is None:
        raise AssertionError("a group among documents")
    return document.record.url


def _event(document: Document, answer: _UrlAnswer) -> Event:
    """Return the event of a document at its URL, in the datasource that is expected."""
    at = Provenance(datasource=document.datasource)
    record = Record(url=_url(document), action=Action.ADD, provenance=at)
    return Event(record, answer.size, answer.digest, fault=answer.fault)
