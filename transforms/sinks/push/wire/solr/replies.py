"""Replies of Solr, and the requests that read from a collection."""

from typing import Protocol, TypeVar

import msgspec

from feedferry.schemas.errors import TargetError
from feedferry.transforms.sinks.push.model import ApplianceResponse
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.responses import describe
from feedferry.transforms.sinks.push.wire.search_index.json_request import json_body

ERRORS_BY_DOCUMENT = "/update?processor=tolerant&maxErrors=-1"
"""A document that is refused does not stop those after it."""

COMMIT = "/update?commit=true"
COMMIT_BODY = json_body({"commit": {}})
TRUST = "the user of ⟦auth⟧ needs the permissions to update and to read the collection"
_FIXES = {401: "expected credentials that Solr accepts: check ⟦auth⟧", 403: TRUST}


class Requests(Protocol):
    """What sends requests: a session, or a reader."""

    def request(
        self, path: str, body: RequestBody | None = None, *, method: str = "GET"
    ) -> ApplianceResponse: ...


class _SolrError(msgspec.Struct):
    msg: str = ""


class _FailedRequest(msgspec.Struct):
    error: _SolrError


class _Found(msgspec.Struct, rename="camel"):
    num_found: int = 0
    docs: list[dict[str, object]] = []


class CollectionReply(msgspec.Struct, rename="camel"):
    """The documents that a search finds, and where its next page begins."""

    response: _Found = msgspec.field(default_factory=_Found)
    next_cursor_mark: str = ""


class RunReply(msgspec.Struct):
    """A document, as it is before the next commit, with its run; None without one."""

    doc: dict[str, int] | None = None


Reply = TypeVar("Reply", bound=msgspec.Struct)


def words_of(response: ApplianceResponse) -> str:
    """Return the status and the words of a request that failed."""
    return f"{response.status}, {error_of(response) or describe(response)}"


def error_of(response: ApplianceResponse) -> str:
    """Return the words of Solr for a request that failed."""
    try:
        return msgspec.json.decode(response.body, type=_FailedRequest).error.msg
    except msgspec.DecodeError:
        return ""


def fix_of(response: ApplianceResponse, otherwise: str) -> str:
    """Return what fixes a request that failed: credentials, permissions, or `otherwise`."""
    return _FIXES.get(response.status or 0, otherwise)


def failure(response: ApplianceResponse, expected: str) -> TargetError:
    """Return the error for a request that failed."""
    fix = fix_of(response, f"expected {expected}")
    return TargetError(f"{response.url}: {words_of(response)}; {fix}")


def read_reply(response: ApplianceResponse, kind: type[Reply], expected: str) -> Reply:
    """Return a reply; raise TargetError for any other, and for a part of the documents."""
    if not response.is_success:
        raise failure(response, expected)
    if b'"partialResults":true' in response.body.replace(b" ", b""):
        raise TargetError(f"{response.url}: not all shards have answered; expected all: try again")
    try:
        return msgspec.json.decode(response.body, type=kind)
    except msgspec.DecodeError as exc:
        raise TargetError(f"{response.url}: {exc}; expected {expected}") from exc


def of_datasource(datasource: str) -> str:
    """Return the query of the documents of a datasource."""
    return f'datasource:"{datasource}"'


def count(requests: Requests, *filters: str) -> int:
    """Return the number of documents that all filters find."""
    body = json_body({"query": "*:*", "filter": filters, "limit": 0})
    response = requests.request("/select", body, method="POST")
    return read_reply(response, CollectionReply, "the number of documents").response.num_found
