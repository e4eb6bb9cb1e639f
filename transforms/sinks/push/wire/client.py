"""Requests to an appliance, one connection each: what is sent, and what comes back or instead.

Nothing of the environment counts: no proxy but the one that is named, no `.netrc`, no cookies.
Certificates are checked, redirects are not followed: a feed goes where its user said.

A connection carries one request. A feedergate closes it behind its answer anyway; and a kept one
that was closed meanwhile would look like a feed that was refused. An appliance that answers before
it has got everything, and closes, is heard all the same where the answer arrives.
"""

import time
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Self

import httpx2
from msgspec.structs import replace

from schemas.account import Chunk
from schemas.delivery import Door
from schemas.errors import ConfigError, SourceError
from schemas.feed import (
    CLEANUP,
    FEEDTYPES,
    FULL,
    INCREMENTAL,
    METADATA_AND_URL,
    REPLACE,
    check_datasource,
)
from transforms.formats import all_formats, by_door, find_format
from transforms.sinks.push.model import (
    Appliance,
    ApplianceProtocol,
    ApplianceResponse,
    ChunkPart,
    ResponseMeaning,
    is_groups,
)
from transforms.sinks.push.wire import gsa_responses
from transforms.sinks.push.wire.address import BACKLOG_PATH, FEED_PATH, GROUPS_PATH, trust
from transforms.sinks.push.wire.body import Body, compressed, multipart, urlencoded
from transforms.sinks.push.wire.errors import Progress, fault
from transforms.sinks.push.wire.response_deadline import ResponseDeadline
from transforms.sinks.push.wire.responses import ANSWER_BYTES_LIMIT

BACKLOG_SECONDS = 30.0
"""How long a count may take, which an appliance knows at once."""

GZIP_BYTES_LIMIT = 1 << 20
"""From this length on a body is never compressed: "GSA only allows request content up to 1 MB to be
compressed", as the adaptor library has it."""

NAME_LETTERS_LIMIT = 250
_DOORS = {
    ApplianceProtocol.FEEDERGATE: (Door.FEED, Door.GROUPS),
    ApplianceProtocol.RECVDATA: (Door.DATA,),
}
_GROUPS_FEEDTYPES = (FULL, INCREMENTAL, REPLACE, CLEANUP)
_WEB_FEEDTYPES = (METADATA_AND_URL, INCREMENTAL)
_HEADERS = {
    "User-Agent": "feedferry",
    "Accept": "*/*",
    "Accept-Encoding": "identity",
    "Connection": "close",
}


def check(chunk: Chunk, appliance: Appliance, *, feedtype: str | None = None) -> None:
    """Raise ConfigError if the appliance cannot take the chunk, or not under its names."""
    doors = _DOORS[appliance.protocol]
    formats = [format_.name for format_ in all_formats() if format_.door in doors]
    if chunk.format is not None and chunk.format not in formats:
        raise ConfigError(
            f"{chunk.path}: {chunk.format}; expected {' or '.join(formats)} for {appliance.url}"
        )
    if appliance.protocol is ApplianceProtocol.FEEDERGATE:
        _check_names(chunk, feedtype or chunk.feedtype)


class ApplianceClient:
    """Sends requests to one appliance, from any number of threads at once."""

    def __init__(
        self, appliance: Appliance, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._appliance = appliance
        self._clock = clock
        self._transport = httpx2.HTTPTransport(
            verify=trust(appliance.ca_file),
            proxy=appliance.proxy,
            trust_env=False,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._transport.close()

    def send(self, part: ChunkPart, *, feedtype: str | None) -> ApplianceResponse:
        """Send a chunk, or a part of one; return what came back, or what came instead.

        Raise ConfigError, before anything is sent, for what `check` refuses.
        """
        check(part.chunk, self._appliance, feedtype=feedtype)
        if (feedtype or part.chunk.feedtype) == CLEANUP:
            answer = self._cleanup_before(part)
            if answer is not None:
                return answer
        try:
            path, body = _request(part, self._appliance, feedtype)
            if self._appliance.gzip and body.length < GZIP_BYTES_LIMIT:
                body = compressed(body)
        except SourceError as exc:
            return ApplianceResponse(fault=str(exc), is_unsent=True, is_final=True)
        return self._exchange(self._appliance).post(path, body)

    def request_bytes(self, part: ChunkPart) -> int:
        """Return how long the body of its request is, exactly; reads the file for RECVDATA."""
        return _request(part, self._appliance, None)[1].length

    def _cleanup_before(self, part: ChunkPart) -> ApplianceResponse | None:
        """Have the groups of a part's source forgotten; return the answer unless it is accepted.

        A refusal is final: no record of the part is the cause.
        """
        answer = self.cleanup(part.chunk.datasource or "")
        verdict = gsa_responses.judge(answer)
        match verdict.meaning:
            case ResponseMeaning.ACCEPTED:
                return None
            case ResponseMeaning.REFUSED:
                words = f"the cleanup of {part.chunk.datasource!r} was refused: {verdict.message}"
                return replace(answer, status=None, fault=words, is_final=True)
        return answer

    def cleanup(self, groupsource: str) -> ApplianceResponse:
        """Have all groups of a source forgotten; raise ConfigError for a name that cannot be."""
        _check_name("cleanup", "groupsource", groupsource)
        body = multipart([("cleanup", groupsource)])
        return self._exchange(self._appliance).post(GROUPS_PATH, body)

    def backlog(self) -> ApplianceResponse:
        """Ask for the number of feeds that wait to be digested."""
        seconds = min(self._appliance.reply_seconds, BACKLOG_SECONDS)
        return self._exchange(replace(self._appliance, reply_seconds=seconds)).get(BACKLOG_PATH)

    def _exchange(self, appliance: Appliance) -> "_Exchange":
        return _Exchange(self._transport, appliance, self._clock)


class _Exchange:
    """One request and what comes of it."""

    def __init__(
        self, transport: httpx2.HTTPTransport, appliance: Appliance, clock: Callable[[], float]
    ) -> None:
        self._transport = transport
        self._appliance = appliance
        self._clock = clock
        self._started = clock()
        self._progress = Progress(length=0)
        self._deadline = ResponseDeadline(appliance.reply_seconds)

    def get(self, path: str) -> ApplianceResponse:
        url = self._appliance.url + path
        return self._ask(httpx2.Request("GET", url, headers=_HEADERS, extensions=self._bounds()))

    def post(self, path: str, body: Body) -> ApplianceResponse:
        self._progress = Progress(length=body.length)
        headers = {"Content-Type": body.content_type, "Content-Length": str(body.length)}
        if body.content_encoding:
            headers["Content-Encoding"] = body.content_encoding
        with closing(self._sent(body)) as blocks:
            request = httpx2.Request(
                "POST",
                self._appliance.url + path,
                headers=_HEADERS | headers,
                content=blocks,
                extensions=self._bounds(),
            )
            return self._ask(request)

    def _bounds(self) -> dict[str, object]:
        timeout = httpx2.Timeout(
            connect=self._appliance.connect_seconds,
            write=self._appliance.write_seconds,
            read=self._appliance.reply_seconds,
            pool=None,
        )
        return {"timeout": timeout.as_dict(), "trace": self._deadline.trace}

    def _sent(self, body: Body) -> Generator[bytes, None, None]:
        """Yield the body; what is asked for next was sent before."""
        with closing(body.blocks()) as blocks:
            for block in blocks:
                yield block
                self._progress.sent += len(block)

    def _ask(self, request: httpx2.Request) -> ApplianceResponse:
        where = str(request.url)
        try:
            with self._deadline:
                answer = self._answer(request)
        except SourceError as exc:
            answer = ApplianceResponse(fault=str(exc), is_final=True)
        except httpx2.HTTPError as exc:
            came = httpx2.ReadTimeout("") if self._deadline.is_over else exc
            found = fault(came, self._appliance, self._progress)
            answer = ApplianceResponse(
                fault=f"{where}: {found.words}",
                is_final=found.is_final,
                is_unsent=isinstance(exc, (httpx2.ConnectError, httpx2.ConnectTimeout)),
            )
        return replace(
            answer,
            where=where,
            is_unsent=answer.is_unsent or self._progress.is_unsent,
            sent_bytes=self._progress.sent,
            seconds=self._clock() - self._started,
        )

    def _answer(self, request: httpx2.Request) -> ApplianceResponse:
        with closing(self._transport.handle_request(request)) as response:
            self._progress.is_answering = True
            body = bytearray()
            try:
                self._read(response, body)
            except httpx2.HTTPError:
                if response.is_success:  # else its status says enough
                    raise
            headers = response.headers
            return ApplianceResponse(
                status=response.status_code,
                content_type=headers.get("content-type", ""),
                body=bytes(body),
                location=headers.get("location", ""),
                retry_after=headers.get("retry-after", ""),
            )

    def _read(self, response: httpx2.Response, body: bytearray) -> None:
        """Add the answer's body, as much as counts of it; raise ReadTimeout if it was cut off."""
        for block in response.iter_bytes():
            body += block[: ANSWER_BYTES_LIMIT - len(body)]
            if len(body) == ANSWER_BYTES_LIMIT:
                return
        if self._deadline.is_over:  # one without a length ends where its connection does
            raise httpx2.ReadTimeout("")


def _request(part: ChunkPart, appliance: Appliance, feedtype: str | None) -> tuple[str, Body]:
    """Return the path, behind the address, and the body of a request."""
    if appliance.protocol is ApplianceProtocol.RECVDATA:
        return "", urlencoded([("profile", appliance.profile)], part)
    source = part.chunk.datasource or ""
    feedtype = feedtype or part.chunk.feedtype
    if not is_groups(part.chunk):
        fields = [("datasource", source), ("feedtype", feedtype or METADATA_AND_URL)]
        format_ = find_format(part.chunk.format) or by_door(Door.FEED)
        return FEED_PATH, multipart(fields, part, content_type=format_.content_type)
    if feedtype == REPLACE:
        return GROUPS_PATH, multipart([(REPLACE, source)], part)
    if feedtype == CLEANUP:
        feedtype = INCREMENTAL  # what was there is forgotten by a request of its own
    fields = [("groupsource", source), ("feedtype", feedtype or "")]
    return GROUPS_PATH, multipart(fields, part)


def _check_names(chunk: Chunk, feedtype: str | None) -> None:
    has_groups = is_groups(chunk)
    _check_name(chunk.path, "groupsource" if has_groups else "datasource", chunk.datasource)
    is_web = chunk.datasource == "web" and not has_groups
    if is_web and feedtype is None:
        return
    feedtypes = _GROUPS_FEEDTYPES if has_groups else _WEB_FEEDTYPES if is_web else FEEDTYPES
    if feedtype not in feedtypes:
        found = "no feedtype" if feedtype is None else f"feedtype={feedtype!r}"
        of_web = " for the datasource web" if is_web else ""
        raise ConfigError(f"{chunk.path}: {found}; expected {' or '.join(feedtypes)}{of_web}")


def _check_name(where: str, field: str, name: str | None) -> None:
    if name is None:
        raise ConfigError(f"{where}: no {field}; expected a name, such as by --datasource")
    check_datasource(name, label=f"{where}: {field}")
    if len(name) > NAME_LETTERS_LIMIT:
        raise ConfigError(
            f"{where}: {field} {name[:20]!r}… has {len(name)} letters; "
            f"expected {NAME_LETTERS_LIMIT} at most"
        )
