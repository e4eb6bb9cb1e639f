"""HTTP client of an appliance: one connection for each request.

Nothing in the environment has an effect: no proxy but the named one, no `.netrc`, no cookies.
Certificates are verified and redirects are not followed, so a feed goes only to the stated address.

A feedergate closes the connection after its response anyway. A connection that is kept, and was
closed meanwhile, would look like a refused feed. If the appliance responds before the whole request
was sent, that response is read.
"""

import time
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Self

import httpx2
from msgspec.structs import replace

from schemas.delivery import Door
from schemas.errors import SourceError
from schemas.feed import CLEANUP, INCREMENTAL, METADATA_AND_URL, REPLACE
from transforms.formats import by_door, find_format
from transforms.response_deadline import ResponseDeadline
from transforms.sinks.push.model import (
    Appliance,
    ApplianceProtocol,
    ApplianceResponse,
    ChunkPart,
    ResponseMeaning,
)
from transforms.sinks.push.request_forms import (
    REQUEST_FORMS,
    check_chunk,
    check_source_name,
    request_form,
)
from transforms.sinks.push.wire import gsa_responses
from transforms.sinks.push.wire.address import BACKLOG_PATH, trusted_certificates
from transforms.sinks.push.wire.body import RequestBody, compressed, multipart, urlencoded
from transforms.sinks.push.wire.responses import MAX_RESPONSE_BYTES
from transforms.sinks.push.wire.transport_errors import RequestProgress, explain_error

BACKLOG_SECONDS = 30.0
"""The time limit of a request for the backlog, which an appliance knows at once."""

GZIP_BYTES_LIMIT = 1 << 20
"""Longer bodies are not compressed: "GSA only allows request content up to 1 MB to be compressed"
(adaptor library)."""

_HEADERS = {
    "User-Agent": "feedferry",
    "Accept": "*/*",
    "Accept-Encoding": "identity",
    "Connection": "close",
}


class ApplianceClient:
    """Sends requests to one appliance; safe from several threads."""

    def __init__(
        self, appliance: Appliance, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._appliance = appliance
        self._clock = clock
        self._transport = httpx2.HTTPTransport(
            verify=trusted_certificates(appliance.ca_file),
            proxy=appliance.proxy,
            trust_env=False,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._transport.close()

    def send(self, part: ChunkPart, *, feedtype: str | None) -> ApplianceResponse:
        """Send a chunk or a part of one; return the response, or the error in its place.

        Raises ConfigError, before anything is sent, if the appliance cannot take the chunk.
        """
        check_chunk(part.chunk, self._appliance, feedtype=feedtype)
        if (feedtype or part.chunk.feedtype) == CLEANUP:
            response = self._cleanup_before(part)
            if response is not None:
                return response
        try:
            path, body = _request(part, self._appliance, feedtype)
            if self._appliance.gzip and body.length < GZIP_BYTES_LIMIT:
                body = compressed(body)
        except SourceError as exc:
            return ApplianceResponse(error=str(exc), is_unsent=True, is_permanent=True)
        return self._exchange().post(path, body)

    def request_bytes(self, part: ChunkPart, *, feedtype: str | None) -> int:
        """Return the length of the request body before gzip; reads the file for RECVDATA."""
        return _request(part, self._appliance, feedtype)[1].length

    def cleanup(self, groupsource: str) -> ApplianceResponse:
        """Remove all groups of a groupsource; raise ConfigError if its name is not possible."""
        groups = REQUEST_FORMS[Door.GROUPS]
        check_source_name("cleanup", groups.source_field, groupsource)
        return self._exchange().post(groups.path, multipart([("cleanup", groupsource)]))

    def backlog(self) -> ApplianceResponse:
        """Request the number of feeds that wait to be digested."""
        return self._exchange(max_reply_seconds=BACKLOG_SECONDS).get(BACKLOG_PATH)

    def _cleanup_before(self, part: ChunkPart) -> ApplianceResponse | None:
        """Remove the groups of a part's groupsource; return the response unless it is accepted.

        A refusal is permanent: no record of the part is the cause.
        """
        response = self.cleanup(part.chunk.datasource or "")
        verdict = gsa_responses.judge(response)
        if verdict.meaning is ResponseMeaning.ACCEPTED:
            return None
        if verdict.meaning is ResponseMeaning.REFUSED:
            error = f"the cleanup of {part.chunk.datasource!r} was refused: {verdict.message}"
            return replace(response, status=None, error=error, is_permanent=True)
        return response

    def _exchange(self, max_reply_seconds: float | None = None) -> "_HttpExchange":
        appliance = self._appliance
        if max_reply_seconds is not None:
            seconds = min(appliance.reply_seconds, max_reply_seconds)
            appliance = replace(appliance, reply_seconds=seconds)
        return _HttpExchange(self._transport, appliance, self._clock)


class _HttpExchange:
    """One request and its response."""

    def __init__(
        self, transport: httpx2.HTTPTransport, appliance: Appliance, clock: Callable[[], float]
    ) -> None:
        self._transport = transport
        self._appliance = appliance
        self._clock = clock
        self._started = clock()
        self._progress = RequestProgress(length=0)
        self._deadline = ResponseDeadline(appliance.reply_seconds)

    def get(self, path: str) -> ApplianceResponse:
        url = self._appliance.url + path
        request = httpx2.Request("GET", url, headers=_HEADERS, extensions=self._extensions())
        return self._exchange(request)

    def post(self, path: str, body: RequestBody) -> ApplianceResponse:
        self._progress = RequestProgress(length=body.length)
        headers = {"Content-Type": body.content_type, "Content-Length": str(body.length)}
        if body.content_encoding:
            headers["Content-Encoding"] = body.content_encoding
        with closing(self._counted(body)) as blocks:
            request = httpx2.Request(
                "POST",
                self._appliance.url + path,
                headers=_HEADERS | headers,
                content=blocks,
                extensions=self._extensions(),
            )
            return self._exchange(request)

    def _extensions(self) -> dict[str, object]:
        timeout = httpx2.Timeout(
            connect=self._appliance.connect_seconds,
            write=self._appliance.write_seconds,
            read=self._appliance.reply_seconds,
            pool=None,
        )
        return {"timeout": timeout.as_dict(), "trace": self._deadline.trace}

    def _counted(self, body: RequestBody) -> Generator[bytes, None, None]:
        """Yield the body; a block was sent when the next one is requested."""
        with closing(body.blocks()) as blocks:
            for block in blocks:
                yield block
                self._progress.sent += len(block)

    def _exchange(self, request: httpx2.Request) -> ApplianceResponse:
        url = str(request.url)
        try:
            with self._deadline:
                response = self._respond(request)
        except SourceError as exc:
            response = ApplianceResponse(error=str(exc), is_permanent=True)
        except httpx2.HTTPError as exc:
            cause = httpx2.ReadTimeout("") if self._deadline.is_exceeded else exc
            error = explain_error(cause, self._appliance, self._progress)
            response = ApplianceResponse(
                error=f"{url}: {error.message}",
                is_permanent=error.is_permanent,
                is_unsent=isinstance(exc, (httpx2.ConnectError, httpx2.ConnectTimeout)),
            )
        return replace(
            response,
            url=url,
            is_unsent=response.is_unsent or self._progress.is_unsent,
            sent_bytes=self._progress.sent,
            seconds=self._clock() - self._started,
        )

    def _respond(self, request: httpx2.Request) -> ApplianceResponse:
        with closing(self._transport.handle_request(request)) as response:
            self._progress.is_answering = True
            body = bytearray()
            try:
                self._read_body(response, body)
            except httpx2.HTTPError:
                if response.is_success:  # any other status says enough
                    raise
            headers = response.headers
            return ApplianceResponse(
                status=response.status_code,
                content_type=headers.get("content-type", ""),
                body=bytes(body),
                location=headers.get("location", ""),
                retry_after=headers.get("retry-after", ""),
            )

    def _read_body(self, response: httpx2.Response, body: bytearray) -> None:
        """Read the body up to its limit; raise ReadTimeout if the deadline has ended it."""
        for block in response.iter_bytes():
            body += block[: MAX_RESPONSE_BYTES - len(body)]
            if len(body) == MAX_RESPONSE_BYTES:
                return
        if self._deadline.is_exceeded:  # a body without a length ends with its connection
            raise httpx2.ReadTimeout("")


def _request(
    part: ChunkPart, appliance: Appliance, feedtype: str | None
) -> tuple[str, RequestBody]:
    """Return the path, relative to the appliance's URL, and the body of a request."""
    if appliance.protocol is ApplianceProtocol.RECVDATA:
        return "", urlencoded([("profile", appliance.profile)], part)
    form = request_form(part.chunk, appliance)
    source = part.chunk.datasource or ""
    feedtype = feedtype or part.chunk.feedtype or METADATA_AND_URL
    if feedtype == REPLACE:
        return form.path, multipart([(REPLACE, source)], part)
    if feedtype == CLEANUP:
        feedtype = INCREMENTAL  # a request before this one has removed the groups
    fields = [(form.source_field, source), ("feedtype", feedtype)]
    format = find_format(part.chunk.format) or by_door(Door.FEED)
    return form.path, multipart(fields, part, content_type=format.content_type)
