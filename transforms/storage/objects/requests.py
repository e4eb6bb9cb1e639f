"""Requests to object storage through obstore: clients, lists, repetitions, and errors in few words.

The library does not repeat a request with a condition, or a deletion, after a connection error,
so `repeated` does. Its errors quote a request and its whole response.
"""

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import obstore
from obstore.exceptions import BaseError, InvalidPathError
from obstore.store import ObjectStore, from_url

from feedferry.schemas.errors import FatalError
from feedferry.schemas.span import FileSignature
from feedferry.transforms.net.retry import RetryPolicy, retry

_GenericError = obstore.exceptions.GenericError
_RETRIES = RetryPolicy(first_seconds=0.25, max_attempts=4)
_LISTED = 1000
_MAX_ERROR_CHARS = 300
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DENIED = ("401", "403")
_NOISE = re.compile(r"^Generic \w+ error: ")
_STATUS = re.compile(r"status code: (\d+)([^:\n]*)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_REQUEST = re.compile(r"Error performing [A-Z]+ (https?://[^/\s]+).*? - (.*)")
_OTHER_REGION = re.compile("without LOCATION|PermanentRedirect|AuthorizationHeaderMalformed")
_NO_BUCKET = re.compile("NoSuchBucket|ContainerNotFound")
_NO_CREDENTIALS = re.compile(
    "/latest/(api/token|meta-data)|/computeMetadata/|/metadata/identity/"
    "|Account must be specified|Missing (SecretA|A)ccessKey"
)
_CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or GOOGLE_SKIP_SIGNATURE=true",
}
_AZURE = "AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or AZURE_SKIP_SIGNATURE=true"


@lru_cache(maxsize=8)
def clients(bucket: str, process: int) -> ObjectStore:
    """Return the client of a bucket; a process that was forked needs its own."""
    return from_url(bucket)


def client_of(bucket: str) -> ObjectStore:
    """Return the client of a bucket in this process."""
    return clients(bucket, os.getpid())


class FoundObject(NamedTuple):
    """An object of a list."""

    key: str
    signature: FileSignature


def list_objects(
    bucket: str, folder: str, *, uri: str = "", is_deep: bool = True
) -> Iterator[FoundObject]:
    """Yield the objects below a folder, page by page; or only those in it, all of which are held.

    Raise OSError if they cannot be listed.
    """
    try:
        store = client_of(bucket)
        objects = (
            chain.from_iterable(obstore.list(store, folder or None, chunk_size=_LISTED))
            if is_deep
            else obstore.list_with_delimiter(store, folder or None)["objects"]
        )
        for found in objects:
            signature = signature_of(found["size"], found["last_modified"], found["e_tag"])
            yield FoundObject(found["path"], signature)
    except (BaseError, OSError, ValueError) as exc:
        raise os_error(exc, uri or f"{bucket}/{folder}") from exc


def repeated(request: Callable[..., object], *args: object, **options: object) -> None:
    """Make a request, and again after connection errors, which have no status."""
    retry(
        lambda: request(*args, **options),
        _RETRIES,
        is_temporary=lambda exc: type(exc) is _GenericError and not _STATUS.search(str(exc)),
    )


def signature_of(size: int, modified: datetime, etag: str | None) -> FileSignature:
    """Return the signature of an object."""
    modified_ns = (modified - _EPOCH) // timedelta(microseconds=1) * 1000
    return FileSignature(size=size, modified_ns=modified_ns, version=(etag or "").strip('"'))


@contextmanager
def translated_errors(bucket: str, key: str, *, is_read: bool = False) -> Iterator[None]:
    """Raise FatalError in place of the errors of the library.

    With `is_read`, FileNotFoundError is raised without an object of that key.
    """
    uri = f"{bucket}/{key}"
    try:
        yield
    except FileNotFoundError as exc:
        if is_read:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), uri) from exc
        raise FatalError(f"{uri}: {bucket} is not there; expected a bucket that exists") from exc
    except (BaseError, OSError, ValueError) as exc:
        text = os_error(exc, uri).strerror
        raise FatalError(f"{uri}: {text}; expected to read and write there") from exc


def os_error(exc: Exception, uri: str) -> OSError:
    """Return an error of the library as an OSError of a URI, in few words."""
    if isinstance(exc, OSError) and exc.strerror:
        return exc
    text = _NOISE.sub("", str(exc).partition("\n\nDebug source")[0])
    scheme = uri.partition(":")[0]
    status, code, request = _STATUS.search(text), _CODE.search(text), _REQUEST.search(text)
    if _NO_BUCKET.search(text):
        return OSError(errno.ENOENT, "there is no such bucket or container", uri)
    if isinstance(exc, FileNotFoundError):
        return OSError(errno.ENOENT, os.strerror(errno.ENOENT), uri)
    if _NO_CREDENTIALS.search(text):
        text = f"no credentials in the environment: set {_CREDENTIALS.get(scheme, _AZURE)}"
        return OSError(errno.EACCES, text, uri)
    number = errno.EACCES if status and status[1] in _DENIED else errno.EIO
    if isinstance(exc, InvalidPathError):
        text = f"{text}: rename it"
    elif _OTHER_REGION.search(text):
        text = "the bucket is in another region: set AWS_DEFAULT_REGION"
    elif "builder error" in text:
        text = "http is not allowed: set AWS_ALLOW_HTTP=true"
    elif status:
        text = f"{status[1]} {code[1] if code else status[2].strip()}"
        text += ": check the credentials in the environment" if number == errno.EACCES else ""
    elif request:
        text = f"{request[2]} ({request[1]}): check the endpoint in the environment"
    return OSError(number, text.partition("\n")[0][:_MAX_ERROR_CHARS], uri)
