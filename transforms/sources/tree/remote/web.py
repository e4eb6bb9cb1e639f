"""Trees on web servers that list folders: Apache, nginx, lighttpd, Python's own and their like.

A link of a page is taken if it leads right below the folder of the page. Sizes and times are those
of the page where it tells them to the byte, as nginx does; else the server is asked for each file.
Who has to log in has a line in `~/.netrc`.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import IO, NamedTuple
from urllib.parse import quote, unquote_to_bytes, urljoin, urlsplit

import lxml.etree
import requests
import requests.adapters
import urllib3
from msgspec.structs import replace

from schemas.errors import SourceError
from transforms.sources.listing import Kind
from transforms.sources.tree.patterns import judge
from transforms.sources.tree.remote.listing import (
    Remote,
    in_order,
    rejected,
    walk_folders,
    words_of,
)
from transforms.sources.tree.remote.stream import (
    BUFFER_BYTES,
    Body,
    broken,
    gone,
    open_stream,
    refused,
)
from transforms.sources.tree.tree import Tree

_TIMEOUT_SECONDS = (30, 60)  # to connect, and between two bytes
_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "feedferry"}
_SAFE = "/!$&'()*+,;=:@~"
_DIED = (urllib3.exceptions.HTTPError, OSError)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT = re.compile(r"\s+(\d\d-[A-Z][a-z]{2}-\d{4} \d\d:\d\d)\s+(\d+)\s*", re.ASCII)
_EXACT_TIME = "%d-%b-%Y %H:%M"
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)", re.ASCII)
_HTML = ("text/html", "application/xhtml+xml")


class Site:
    """The files below a folder of a web server."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def list(self) -> Iterator[Remote]:
        """Yield all of them, in order; raise SourceError where the root cannot be listed."""
        code_of = judge(self._tree)
        for remote in walk_folders(self._tree, self._top(), self._descend):
            is_told = remote.kind is not Kind.FILE or remote.size is not None
            yield remote if is_told or code_of(remote.key, None) else _asked(remote)

    def find(self, key: str) -> Remote | None:
        path = f"{self._tree.root}/{quote(key, safe=_SAFE)}"
        try:
            return _ask(Remote(key=key, path=path))
        except FileNotFoundError:
            return None

    def _top(self) -> Iterator[Remote]:
        """What stands in the root; a page that leads to nothing is more likely no listing."""
        root = self._tree.root
        try:
            top = self._descend(Remote(key="", path=root))
            first = next(top, None)
            if first is None:
                raise broken(root, "no link to a file or folder in it")
        except OSError as exc:
            reason = f"{words_of(exc)}; expected a page that lists a folder"
            raise SourceError(f"{root}/: {reason}") from exc
        return chain((first,), top)

    def _descend(self, above: Remote) -> Iterator[Remote]:
        return in_order(_children(above.key, above.path + "/"))


connect = Site


def open_file(path: str) -> IO[bytes]:
    """Open a file; raise OSError where that cannot be done."""

    def fetch(offset: int) -> Body:
        said = _send("GET", path, {"Range": f"bytes={offset}-"} if offset else {})
        return _body(said, path, offset)

    return open_stream(path, fetch, died=_DIED)


@functools.cache
def session() -> requests.Session:
    """Return the session of this process; a connection that has died is opened again once."""
    made = requests.Session()
    made.headers.update(_HEADERS)
    again = urllib3.Retry(total=2, connect=1, read=1, status=0)
    made.mount("http://", requests.adapters.HTTPAdapter(max_retries=again))
    made.mount("https://", requests.adapters.HTTPAdapter(max_retries=again))
    return made


class _Raw(NamedTuple):
    """The bytes of an answer as they come, without those of a content encoding taken away."""

    said: requests.Response

    def read(self, size: int, /) -> bytes:
        block: bytes = self.said.raw.read(size)
        return block

    def close(self) -> None:
        self.said.close()


def _send(
    method: str, uri: str, headers: Mapping[str, str] = {}, *, follow: bool = True
) -> requests.Response:
    """Return an answer that is good; raise OSError for any other."""
    try:
        said = session().request(
            method,
            uri,
            headers=headers,
            stream=True,
            timeout=_TIMEOUT_SECONDS,
            allow_redirects=follow,
        )
    except requests.RequestException as exc:
        raise broken(uri, _cause(exc)) from exc
    if said.status_code in (200, 206):
        return said
    said.close()
    raise _refusal(said, uri)


def _refusal(said: requests.Response, uri: str) -> OSError:
    status = said.status_code
    if status in (404, 410):
        return gone(uri)
    if said.is_redirect:
        target = said.headers["Location"].partition("?")[0]
        return broken(uri, f"it redirects to {target!r}")
    words = f"{status} {said.reason}"
    return refused(uri, words) if status in (401, 403) else broken(uri, words)


def _cause(exc: BaseException) -> str:
    """What was at the bottom of it: requests tells all that came of that."""
    while exc.__context__ is not None:
        exc = exc.__context__
    return getattr(exc, "strerror", None) or str(exc) or type(exc).__name__


def _body(said: requests.Response, path: str, offset: int) -> Body:
    stated = said.headers.get("Content-Length", "")
    size = int(stated) if stated.isdecimal() else None
    version = f"{said.headers.get('ETag', '')} {said.headers.get('Last-Modified', '')}".strip()
    if said.status_code == 206:
        place = _RANGE.fullmatch(said.headers.get("Content-Range", ""))
        if not place or int(place[1]) != offset:
            said.close()
            raise broken(path, "other bytes than were asked for")
        size = int(place[2])
    elif offset:
        _skip(said, path, offset)
    return Body(_Raw(said), size, version)


def _skip(said: requests.Response, path: str, count: int) -> None:
    """Read what a server sends that gives no ranges."""
    try:
        while count and (block := said.raw.read(min(count, BUFFER_BYTES))):
            count -= len(block)
    except _DIED as exc:
        raise broken(path, _cause(exc)) from exc


def _asked(remote: Remote) -> Remote:
    """What the server says of a file, if it says anything; that it is gone, its reader finds."""
    with suppress(OSError):
        return _ask(remote)
    return remote


def _ask(remote: Remote) -> Remote:
    with _send("HEAD", remote.path) as said:
        size = said.headers.get("Content-Length", "")
        return replace(
            remote,
            size=int(size) if size.isdecimal() else None,
            modified_ns=_parse_modified(said.headers.get("Last-Modified", "")),
            fingerprint=said.headers.get("ETag", ""),
        )


def _parse_modified(text: str) -> int | None:
    try:
        return _nanoseconds(parsedate_to_datetime(text))
    except ValueError:
        return None


def _nanoseconds(when: datetime) -> int:
    aware = when if when.tzinfo else when.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(seconds=1) * 1_000_000_000


def _children(above: str, page: str) -> Iterator[Remote]:
    """Yield what the links of a page lead to, once each."""
    seen = set()
    with _send("GET", page, follow=False) as said:
        kind = said.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind not in _HTML:
            raise broken(page, f"it is {kind or 'of no type'!r}")
        said.raw.decode_content = True
        for href, behind in _links(said, page):
            child = _child(above, page, href, behind)
            if child and child.key not in seen:
                seen.add(child.key)
                yield child


def _links(said: requests.Response, page: str) -> Iterator[tuple[str, str]]:
    """Yield where each link leads, and the text behind it."""
    anchors = lxml.etree.iterparse(said.raw, tag="a", html=True, no_network=True, huge_tree=True)
    try:
        before = None
        for _, anchor in anchors:
            if before is not None:
                yield before.get("href", ""), before.tail or ""
            before = anchor
        if before is not None:
            yield before.get("href", ""), before.tail or ""
    except lxml.etree.XMLSyntaxError as exc:
        raise broken(page, "it is not HTML") from exc
    except urllib3.exceptions.HTTPError as exc:
        raise broken(page, "it breaks off") from exc


def _child(above: str, page: str, href: str, behind: str) -> Remote | None:
    """What a link leads to, unless that stands elsewhere."""
    target = urlsplit(urljoin(page, href.strip()))
    here = urlsplit(page)
    path = target.path.removesuffix("/")
    folder, _, quoted = path.rpartition("/")
    is_below = unquote_to_bytes(f"{folder}/") == unquote_to_bytes(here.path)
    if target[:2] != here[:2] or target.query or not is_below or not quoted:
        return None
    uri = f"{target.scheme}://{target.netloc}{path}"
    raw = unquote_to_bytes(quoted)
    key = above + raw.decode(errors="backslashreplace")
    if b"/" in raw or raw in (b".", b"..") or raw != raw.decode(errors="ignore").encode():
        reason = f"{raw!r}; expected a name in UTF-8, without '/'"
        return rejected(key, uri, "file-name", reason)
    if target.path.endswith("/"):
        return Remote(key=f"{key}/", path=uri, kind=Kind.FOLDER)
    return _told(Remote(key=key, path=uri), behind)


def _told(remote: Remote, behind: str) -> Remote:
    """A file with its size and time, if the text behind its link tells the size to the byte.

    Those times are in UTC, unless nginx was told otherwise.
    """
    told = _EXACT.fullmatch(behind)
    if not told:
        return remote
    modified = datetime.strptime(told[1], _EXACT_TIME)
    return replace(remote, size=int(told[2]), modified_ns=_nanoseconds(modified))
