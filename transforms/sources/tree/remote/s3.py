"""Trees in S3 and what speaks like it: listed by pages, in the order that S3 itself keeps.

Credentials, region and endpoint are those that boto3 finds: `AWS_ACCESS_KEY_ID`,
`AWS_ENDPOINT_URL`, `~/.aws`, the role of the machine.
"""

import functools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import IO, Any

import boto3  # type: ignore[import-untyped]  # it has no types of its own
import botocore.exceptions  # type: ignore[import-untyped]  # the same
import urllib3.exceptions

from schemas.errors import SourceError
from transforms.sources.tree.remote.listing import Remote, in_order
from transforms.sources.tree.remote.stream import Body, broken, gone, open_stream, refused
from transforms.sources.tree.tree import Tree

_UNORDERED = "--x-s3"  # how the names of directory buckets end, which list in no order
_GONE = frozenset({"404", "NoSuchKey", "NoSuchVersion"})
_REFUSED = frozenset({"403", "AccessDenied", "Forbidden", "AllAccessDisabled"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DIED = (botocore.exceptions.BotoCoreError, urllib3.exceptions.HTTPError, OSError)
_UNANSWERED = (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError)


class Bucket:
    """The objects below a prefix of a bucket."""

    def __init__(self, tree: Tree) -> None:
        self._root = tree.root
        self._name, _, prefix = tree.root.partition("://")[2].partition("/")
        self._prefix = f"{prefix}/" if prefix else ""

    def list(self) -> Iterator[Remote]:
        """Yield all of them; raise SourceError where they cannot be listed or there are none."""
        listed = self._list_pages()
        yield from in_order(listed) if self._name.endswith(_UNORDERED) else listed

    def find(self, key: str) -> Remote | None:
        try:
            head = client().head_object(Bucket=self._name, Key=self._prefix + key)
        except _UNANSWERED as exc:
            if _code(exc) in _GONE:
                return None
            raise self._unlistable(exc) from exc
        return self._file(key, head["ContentLength"], head)

    def _list_pages(self) -> Iterator[Remote]:
        pages = client().get_paginator("list_objects_v2")
        is_empty = True
        try:
            for page in pages.paginate(Bucket=self._name, Prefix=self._prefix):
                for found in page.get("Contents", ()):
                    is_empty = False
                    yield self._file(found["Key"][len(self._prefix) :], found["Size"], found)
        except _UNANSWERED as exc:
            raise self._unlistable(exc) from exc
        if is_empty:
            raise SourceError(f"{self._root}: no object; expected some below this prefix")

    def _file(self, key: str, size: int, said: dict[str, Any]) -> Remote:
        return Remote(
            key=key,
            path=f"s3://{self._name}/{self._prefix}{key}",
            size=size,
            modified_ns=(said["LastModified"] - _EPOCH) // _MICROSECOND * 1000,
            fingerprint=said.get("ETag", "").strip('"'),
        )

    def _unlistable(self, exc: Exception) -> SourceError:
        return SourceError(f"{self._root}: {_words(exc)}; expected a bucket that can be listed")


connect = Bucket


def open_file(path: str) -> IO[bytes]:
    """Open an object; raise OSError where that cannot be done."""
    bucket, _, key = path.partition("://")[2].partition("/")

    def fetch(offset: int) -> Body:
        asked = {"Range": f"bytes={offset}-"} if offset else {}
        try:
            said = client().get_object(Bucket=bucket, Key=key, **asked)
        except _UNANSWERED as exc:
            raise _unopened(path, exc) from exc
        if offset and not said.get("ContentRange", "").startswith(f"bytes {offset}-"):
            said["Body"].close()
            raise broken(path, "other bytes than were asked for")
        return Body(said["Body"], offset + said["ContentLength"], said.get("ETag", ""))

    return open_stream(path, fetch, died=_DIED)


@functools.cache
def client() -> Any:  # boto3 makes its classes when it runs
    """Return the client of this process."""
    return boto3.session.Session().client("s3")


def _unopened(path: str, exc: Exception) -> OSError:
    code = _code(exc)
    if code in _GONE:
        return gone(path)
    return refused(path) if code in _REFUSED else broken(path, _words(exc))


def _code(exc: Exception) -> str:
    """The word or status that S3 answered with; nothing if it did not answer."""
    return str(_answer(exc).get("Code", ""))


def _words(exc: Exception) -> str:
    """What S3 said, which is a code and a sentence, or what kept it from that."""
    answer = _answer(exc)
    return f"{answer.get('Code')}: {answer.get('Message')}" if answer else str(exc)


def _answer(exc: Exception) -> dict[str, Any]:
    return exc.response["Error"] if isinstance(exc, botocore.exceptions.ClientError) else {}
