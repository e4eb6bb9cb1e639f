"""Who may pass which door of a receiver, and how a scenario meets those who do.

Every path has a door. An address that is not trusted gets the appliance's words, with status 200:
clients of a GSA read the words, CM3 only those below status 400, and the refusal for want of disk
space is documented with 200.
"""

import re
from collections.abc import Callable, Iterator

from pipelines.serve.appliance_replies import UNAUTHORIZED
from pipelines.serve.http.body_decoding import bounded, decompressed, too_large
from pipelines.serve.http.exchange import RefusedError, Reply, Request, TornError
from pipelines.serve.http.get_endpoints import COUNT_PATH, DTD_PATH, Lookups
from pipelines.serve.http.post_endpoints import Posts
from pipelines.serve.http.trusted_addresses import ALL, Trust
from pipelines.serve.rehearsal import thunderstone_result
from pipelines.serve.rehearsal.scenario import Behaviour
from pipelines.serve.settings import LOOPBACK, ServeSettings
from schemas.delivery import Door

DATA_PATH = "/recvdata.xml"
_LOOPBACK, _ANY = Trust(LOOPBACK), Trust((ALL,))
_FEED_PATHS = {"/xmlfeed": Door.FEED, "/xmlgroups": Door.GROUPS}


class Doors:
    """Answers requests.

    `behave` tells how to meet the next request at a door, None for the backlog's. `wait` passes
    seconds, and fewer when the receiver stops.
    """

    def __init__(
        self,
        settings: ServeSettings,
        posts: Posts,
        lookups: Lookups,
        *,
        behave: Callable[[Door | None], Behaviour],
        wait: Callable[[float], object],
    ) -> None:
        self._limit = settings.max_request_bytes
        self._trust = Trust(settings.trusted)
        self._is_local = _is_local(settings.host)
        self._posts = posts
        self._lookups = lookups
        self._behave = behave
        self._wait = wait

    def answer(self, request: Request) -> Reply:
        """Return the reply to a request; raise RefusedError, and TornError for no reply."""
        door = _door_of(request.path)
        if door is not None:
            return self._pass_post(door, request) if request.method == "POST" else _only("POST")
        if request.path not in self._lookups.paths:
            known = ", ".join((*_FEED_PATHS, *self._lookups.paths))
            raise RefusedError(404, f"{request.path!r}; expected {known} or ...{DATA_PATH}")
        if request.method not in {"GET", "HEAD"}:
            return _only("GET, HEAD")
        return self._pass_get(request)

    def _pass_post(self, door: Door, request: Request) -> Reply:
        if not self._is_trusted(door, request):
            if door is Door.DATA:
                return Reply(
                    body=thunderstone_result.refusal(thunderstone_result.NOT_ALLOWED),
                    content_type="text/xml",
                )
            return Reply(body=UNAUTHORIZED.encode())
        behaviour = self._meet(door, request)
        blocks = self._blocks(request, behaviour)
        if behaviour.status is None:
            reply = self._posts.take(door, request, blocks, refused_urls=behaviour.refuse_urls)
        else:
            _drop(blocks)
            reply = _scripted(behaviour)
        return self._end(reply, behaviour)

    def _pass_get(self, request: Request) -> Reply:
        is_trusted = self._trust.allows(request.client)
        if request.path not in {COUNT_PATH, DTD_PATH}:
            if not is_trusted:
                raise RefusedError(403, f"{request.client}; expected a trusted address")
            if self._is_local:
                _check_host(request.header("host"))
            return self._lookups.answer(request)
        if not is_trusted:
            return Reply(body=UNAUTHORIZED.encode())
        if request.path == DTD_PATH:
            return self._lookups.answer(request)
        return self._count(request)

    def _count(self, request: Request) -> Reply:
        behaviour = self._meet(None, request)
        if behaviour.status is not None:
            reply = _scripted(behaviour)
        elif behaviour.backlog is not None:
            reply = Reply(body=str(behaviour.backlog).encode())
        else:
            reply = self._lookups.answer(request)
        return self._end(reply, behaviour)

    def _meet(self, door: Door | None, request: Request) -> Behaviour:
        """Return how to meet a request; one without a body is torn at once, not in that."""
        behaviour = self._behave(door)
        if behaviour.tear == "at-once" or (behaviour.tear == "in-body" and request.length == 0):
            raise TornError("as the scenario says")
        return behaviour

    def _end(self, reply: Reply, behaviour: Behaviour) -> Reply:
        if behaviour.delay_seconds:
            self._wait(behaviour.delay_seconds)
        if behaviour.tear == "before-reply":
            raise TornError("as the scenario says")
        return reply

    def _is_trusted(self, door: Door, request: Request) -> bool:
        """A Thunderstone appliance asks for trust in all proxies that a request came through."""
        chains = [value for name, value in request.headers if name == "x-forwarded-for"]
        if door is Door.DATA and not all(map(self._trust.allows_all, chains)):
            return False
        return self._trust.allows(request.client)

    def _blocks(self, request: Request, behaviour: Behaviour) -> Iterator[bytes]:
        """Return the body behind its encoding; refuse one that is too long, or may be."""
        if request.length is not None and request.length >= self._limit:
            raise too_large(request.length, limit=self._limit)
        if request.length == 0 and not request.header("content-length"):
            raise RefusedError(411, "no Content-Length; expected it, or chunks")
        raw = self._met(request, behaviour) if _slows(behaviour) else request.blocks
        encoding = request.header("content-encoding")
        blocks = decompressed(bounded(raw, limit=self._limit), encoding)
        return bounded(blocks, limit=self._limit)

    def _met(self, request: Request, behaviour: Behaviour) -> Iterator[bytes]:
        """Yield the body as slowly as a scenario says, and to its middle only if it says so."""
        received = 0
        for block in request.blocks:
            received += len(block)
            if behaviour.bytes_per_second:
                self._wait(len(block) / behaviour.bytes_per_second)
            if behaviour.tear == "in-body" and 2 * received >= (request.length or 0):
                raise TornError("as the scenario says")
            yield block


def _door_of(path: str) -> Door | None:
    return Door.DATA if path.endswith(DATA_PATH) else _FEED_PATHS.get(path)


def _is_local(host: str) -> bool:
    return host == "localhost" or _LOOPBACK.allows(host)


def _check_host(host: str) -> None:
    """Refuse a name that a web site may have given to this machine, to read what is shown here.

    The browser of an operator takes both for one site then. No public name is without a dot.
    """
    name = re.sub(r":[0-9]*$", "", host)
    if "." in name and not _ANY.allows(name):
        raise RefusedError(403, f"Host: {host!r}; expected an address, or localhost")


def _only(methods: str) -> Reply:
    return Reply(status=405, body=f"expected {methods}".encode(), headers=(("Allow", methods),))


def _slows(behaviour: Behaviour) -> bool:
    return behaviour.tear == "in-body" or behaviour.bytes_per_second is not None


def _drop(blocks: Iterator[bytes]) -> None:
    for _ in blocks:
        pass


def _scripted(behaviour: Behaviour) -> Reply:
    return Reply(
        status=behaviour.status or 200,
        body=(behaviour.text or "").encode(),
        content_type=behaviour.content_type,
    )
