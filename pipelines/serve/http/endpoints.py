"""The endpoints of a receiver: who is trusted, and the scenario that a request meets.

An untrusted address gets the appliance's words with status 200: clients of a GSA read the words,
CM3 only those with a status below 400, and the refusal for a full disk is documented with 200.
"""

import re
from collections.abc import Callable, Iterator
from http import HTTPStatus

from pipelines.serve.http.body_decoding import decompress, limit_size, too_large
from pipelines.serve.http.exchange import ConnectionDroppedError, RefusedError, Reply, Request
from pipelines.serve.http.get_endpoints import BACKLOG_PATH, DTD_PATH, GetEndpoints
from pipelines.serve.http.post_endpoints import DISK_FULL, PostEndpoints
from pipelines.serve.http.server import INTERNAL_ERROR
from pipelines.serve.http.trusted_addresses import ALL, Trust
from pipelines.serve.rehearsal import thunderstone_result
from pipelines.serve.rehearsal.scenario import Behaviour
from pipelines.serve.settings import LOOPBACK, ServeSettings
from schemas.delivery import Door

DATA_PATH = "/recvdata.xml"
UNAUTHORIZED = "Error - Unauthorized Request"
_FEED_PATHS = {"/xmlfeed": Door.FEED, "/xmlgroups": Door.GROUPS}
_LOOPBACK, _ANY = Trust(LOOPBACK), Trust((ALL,))
_TEXTS = {status.value: status.phrase for status in HTTPStatus} | {
    500: INTERNAL_ERROR,
    401: UNAUTHORIZED,
}


class Endpoints:
    """Answers requests.

    `behave` returns the behaviour for the next request at an endpoint, None for the backlog.
    `wait` waits some seconds, fewer when the receiver stops.
    """

    def __init__(
        self,
        settings: ServeSettings,
        posts: PostEndpoints,
        gets: GetEndpoints,
        *,
        behave: Callable[[Door | None], Behaviour],
        wait: Callable[[float], object],
    ) -> None:
        self._max_bytes = settings.max_request_bytes
        self._trust = Trust(settings.trusted)
        self._is_local = settings.host == "localhost" or _LOOPBACK.allows(settings.host)
        self._posts = posts
        self._gets = gets
        self._behave = behave
        self._wait = wait

    def answer(self, request: Request) -> Reply:
        """Return the reply; raise RefusedError, or ConnectionDroppedError for no reply."""
        path = request.path
        door = Door.DATA if path.endswith(DATA_PATH) else _FEED_PATHS.get(path)
        if door is not None:
            return self._post(door, request) if request.method == "POST" else _only("POST")
        if path not in self._gets.paths:
            known = ", ".join((*_FEED_PATHS, *self._gets.paths))
            raise RefusedError(404, f"{path!r}; expected {known} or ...{DATA_PATH}")
        return self._get(request) if request.method in {"GET", "HEAD"} else _only("GET, HEAD")

    def _post(self, door: Door, request: Request) -> Reply:
        if not self._is_trusted(door, request):
            if door is Door.DATA:
                words = thunderstone_result.refusal(thunderstone_result.NOT_ALLOWED)
                return Reply(body=words, content_type="text/xml")
            return Reply(body=UNAUTHORIZED.encode())
        behaviour = self._meet(door, request)
        blocks = self._read_body(request, behaviour)
        scripted = _scripted_reply(behaviour)
        if scripted is None:
            reply = self._posts.take(door, request, blocks, refused_urls=behaviour.refuse_urls)
        else:
            for _ in blocks:
                pass
            reply = scripted
        return self._finish(reply, behaviour)

    def _get(self, request: Request) -> Reply:
        is_trusted = self._trust.allows(request.client)
        if request.path in {BACKLOG_PATH, DTD_PATH}:
            if not is_trusted:
                return Reply(body=UNAUTHORIZED.encode())
            return self._count(request) if request.path == BACKLOG_PATH else self._gets.dtd(request)
        if not is_trusted:
            raise RefusedError(403, f"{request.client}; expected a trusted address")
        if self._is_local:
            _check_host(request.header("host"))
        return self._gets.answer(request)

    def _count(self, request: Request) -> Reply:
        behaviour = self._meet(None, request)
        reply = _scripted_reply(behaviour)
        if reply is None and behaviour.backlog is not None:
            reply = Reply(body=str(behaviour.backlog).encode())
        return self._finish(reply or self._gets.answer(request), behaviour)

    def _meet(self, door: Door | None, request: Request) -> Behaviour:
        """Return the behaviour; reset the connection at once, also if there is no body."""
        behaviour = self._behave(door)
        if behaviour.reset == "at-once" or (behaviour.reset == "in-body" and request.length == 0):
            raise _reset_connection()
        return behaviour

    def _finish(self, reply: Reply, behaviour: Behaviour) -> Reply:
        if behaviour.delay_seconds:
            self._wait(behaviour.delay_seconds)
        if behaviour.reset == "before-reply":
            raise _reset_connection()
        return reply

    def _is_trusted(self, door: Door, request: Request) -> bool:
        """A Thunderstone appliance also requires trust in all proxies of the request."""
        chains = [value for name, value in request.headers if name == "x-forwarded-for"]
        if door is Door.DATA and not all(map(self._trust.allows_all, chains)):
            return False
        return self._trust.allows(request.client)

    def _read_body(self, request: Request, behaviour: Behaviour) -> Iterator[bytes]:
        """Return the decoded body; refuse one that is too large, before and after decoding."""
        limit = self._max_bytes
        if request.length is not None and request.length >= limit:
            raise too_large(request.length, limit=limit)
        if request.length == 0 and not request.header("content-length"):
            raise RefusedError(411, "no Content-Length; expected it, or chunks")
        blocks = _reset_in_body(request) if behaviour.reset == "in-body" else request.blocks
        blocks = limit_size(blocks, limit=limit)
        return limit_size(decompress(blocks, request.header("content-encoding")), limit=limit)


def _reset_in_body(request: Request) -> Iterator[bytes]:
    """Yield the first half of the body, and reset the connection."""
    received = 0
    for block in request.blocks:
        received += len(block)
        if 2 * received >= (request.length or 0):
            raise _reset_connection()
        yield block


def _reset_connection() -> ConnectionDroppedError:
    return ConnectionDroppedError("a reset of the scenario")


def _check_host(host: str) -> None:
    """Refuse a DNS name that a web site may have pointed at this machine, to read its pages.

    The operator's browser would then take both for one site. Every public name has a dot.
    """
    name = re.sub(r":[0-9]*$", "", host)
    if "." in name and not _ANY.allows(name):
        raise RefusedError(403, f"Host: {host!r}; expected an address, or localhost")


def _only(methods: str) -> Reply:
    return Reply(status=405, body=f"expected {methods}".encode(), headers=(("Allow", methods),))


def _scripted_reply(behaviour: Behaviour) -> Reply | None:
    """Return the reply of a scenario, None if the request is answered normally."""
    if behaviour.is_disk_full:
        return Reply(body=DISK_FULL.encode())
    if behaviour.status is None and behaviour.text is None:
        return None
    status = behaviour.status or 200
    text = _TEXTS.get(status, "") if behaviour.text is None else behaviour.text
    return Reply(status=status, body=text.encode())
