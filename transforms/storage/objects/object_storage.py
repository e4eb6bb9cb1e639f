"""Object storage: S3, Google Cloud Storage and Azure, through obstore.

Credentials and endpoints come from the environment of each process, as AWS_ENDPOINT_URL. Objects
are sent in parts, and appear when the last one is there. `put_if_absent` is one request with a
condition (`If-None-Match: *`). The library does not repeat such a request, or a deletion, after a
connection error, so `_repeated` does. If the first request had arrived, the second one is refused
because of its own object. So the object is read back, and compared.

An object is read by requests for ranges of it, all of one version. Errors of the library quote a
request and its whole response; `os_error` makes them short.
"""

import errno
import io
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from typing import IO, Literal, NamedTuple

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, InvalidPathError, PreconditionError
from obstore.store import ObjectStore, S3Store, from_url

from feedferry.schemas.account import SpanFile
from feedferry.schemas.errors import ConfigError, FatalError
from feedferry.schemas.span import FileSignature
from feedferry.transforms.net.retry import RetryPolicy, retry
from feedferry.transforms.storage.files.block_stream import RemoteStream
from feedferry.transforms.storage.storage import OBJECT_SCHEMES, Storage, WholeFile

_GenericError = obstore.exceptions.GenericError
_RETRIES = RetryPolicy(first_seconds=0.25, max_attempts=4)
_PART_BYTES = 8 << 20
_UPLOADS = 4
FIRST_BYTES = 1 << 17
"""Bytes of the first request for an object, which show its format; later requests are larger."""
REQUEST_BYTES = 4 << 20
_BUFFER_BYTES = 1 << 20
_LISTED = 1000
_MAX_ERROR_CHARS = 300
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DENIED = ("401", "403")
_URI = re.compile(r"([a-z0-9]+)://([^/?#@:]+)(?:/(.*))?", re.DOTALL)
_NOISE = re.compile(r"^Generic \w+ error: ")
_STATUS = re.compile(r"status code: (\d+)([^:\n]*)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_REQUEST = re.compile(r"Error performing [A-Z]+ (https?://[^/\s]+).*? - (.*)")
_NO_RANGE = re.compile("status code: 416|non-partial response")  # it may end before
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


class Version(NamedTuple):
    """A version of an object: its ETag, and the server's time of its last change."""

    etag: str | None
    modified: datetime


class ObjectStorage(Storage):
    """The objects below a prefix of a bucket or container."""

    def __init__(self, bucket: str, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = prefix

    @classmethod
    def of(cls, uri: str) -> "ObjectStorage":
        """Return the storage of a URI; raise ConfigError for one that is none of object storage."""
        match = _URI.fullmatch(uri)
        if match is None or match[1] not in OBJECT_SCHEMES:
            scheme = uri.partition("://")[0]
            found = f"{scheme}://…"  # what follows may be a password
            raise ConfigError(
                f"{found}: cannot be written to; expected a folder, or a URI such as"
                " s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"
            )
        return cls(f"{match[1]}://{match[2]}", (match[3] or "").strip("/"))

    def below(self, name: str) -> "ObjectStorage":
        return ObjectStorage(self._bucket, self._key(name))

    def locate(self, name: str) -> str:
        return f"{self._bucket}/{self._key(name)}"

    def open_whole(self, name: str) -> WholeFile:
        return _ObjectFile(self, self._key(name), name)

    def open(self, name: str, offset: int = 0) -> IO[bytes]:
        with self.translating(name, is_read=True):
            stream = ObjectStream(self._bucket, self._key(name), offset)
        return io.BufferedReader(stream, _BUFFER_BYTES)

    def put(self, name: str, data: bytes) -> None:
        self._put(name, data, "overwrite")

    def put_if_absent(self, name: str, data: bytes) -> bool:
        return self._put(name, data, "create")

    def replace_if(self, name: str, data: bytes, version: Version) -> Version | None:
        """Replace a version of an object; return the new one, None if the object has another."""
        return self.version(name) if self._put(name, data, version) else None

    def _put(
        self, name: str, data: bytes, condition: Literal["create", "overwrite"] | Version
    ) -> bool:
        """Put an object; return whether it is there, or was when the request was repeated."""
        with self.translating(name):
            try:
                _repeated(
                    obstore.put,
                    self.store,
                    self._key(name),
                    data,
                    mode={"e_tag": condition.etag} if isinstance(condition, Version) else condition,
                    use_multipart=False,
                )
            except (AlreadyExistsError, PreconditionError, FileNotFoundError) as exc:
                if isinstance(exc, FileNotFoundError) and not isinstance(condition, Version):
                    raise  # there is no bucket
                return self.get(name) == data
        return True

    def version(self, name: str) -> Version | None:
        """Return the present version of an object, None without one."""
        with self.translating(name):
            try:
                found = obstore.head(self.store, self._key(name))
            except FileNotFoundError:
                return None
        return Version(found["e_tag"], found["last_modified"])

    def sizes(self, prefix: str = "") -> dict[str, int]:
        begin = len(self._key("")) + 1 if self._prefix else 0
        with self.translating(prefix):
            objects = list_objects(self._bucket, self._key(prefix))
            return {found.key[begin:]: found.signature.size or 0 for found in objects}

    def remove(self, prefix: str) -> None:
        with self.translating(prefix):
            key = self._key(prefix)
            names = [found.key for found in list_objects(self._bucket, key)]
            _repeated(obstore.delete, self.store, names or [key])

    def make(self, name: str) -> None:
        pass

    def remove_files(self, names: Iterable[str]) -> None:
        if keys := [self._key(name) for name in names]:
            with self.translating(""):
                _repeated(obstore.delete, self.store, keys)

    def folders(self) -> list[str]:
        """Return the names of the folders directly in this one."""
        with self.translating(""):
            found = obstore.list_with_delimiter(self.store, self._prefix or None)
        return [prefix.rpartition("/")[2] for prefix in found["common_prefixes"]]

    def uploads(self, *, abort: bool) -> list[str]:
        store = self.store
        if not isinstance(store, S3Store):
            return []
        from feedferry.transforms.storage.objects.uploads import Uploads

        with self.translating(""):
            uploads = Uploads(self._bucket, f"{self._prefix}/" if self._prefix else "", store)
        found = uploads.abort() if abort else uploads.find()
        return [f"{upload.name} (upload {upload.id})" for upload in found]

    def modified_ns(self, name: str) -> int:
        return 0

    def written_at(self, name: str) -> float:
        version = self.version(name)
        return math.nan if version is None else version.modified.timestamp()

    def are_whole(self, files: Sequence[SpanFile], *, verify: bool = True) -> bool:
        """Compare the sizes: what was uploaded is complete, and the server keeps it."""
        folders = {file.path.rpartition("/")[0] for file in files}
        sizes = {name: size for folder in folders for name, size in self.sizes(folder).items()}
        return all(sizes.get(file.path) == file.bytes for file in files)

    def snapshot(self, begun: str) -> Storage:
        return _ListedStorage(self._bucket, self._prefix, begun)

    @property
    def store(self) -> ObjectStore:
        return clients(self._bucket, os.getpid())

    def _key(self, name: str) -> str:
        return "/".join(filter(None, (self._prefix, name)))

    @contextmanager
    def translating(self, name: str, *, is_read: bool = False) -> Iterator[None]:
        """Raise FatalError in place of the errors of the library.

        With `is_read`, FileNotFoundError is raised without an object of that name.
        """
        try:
            yield
        except FileNotFoundError as exc:
            if is_read:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from exc
            raise FatalError(
                f"{self.locate(name)}: {self._bucket} is not there; expected a bucket that exists"
            ) from exc
        except (BaseError, OSError, ValueError) as exc:
            text = os_error(exc, self.locate(name)).strerror
            raise FatalError(
                f"{self.locate(name)}: {text}; expected to read and write there"
            ) from exc


class _ListedStorage(ObjectStorage):
    """A storage that answers from one list, so that a missing file costs no request."""

    def __init__(self, bucket: str, prefix: str, begun: str) -> None:
        super().__init__(bucket, prefix)
        self._begun = begun

    def open(self, name: str, offset: int = 0) -> IO[bytes]:
        if name not in self._listed:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return super().open(name, offset)

    def are_whole(self, files: Sequence[SpanFile], *, verify: bool = True) -> bool:
        return all(self._listed.get(file.path) == file.bytes for file in files)

    @property
    def _listed(self) -> dict[str, int]:
        return _listed_once(self._bucket, self._prefix, os.getpid(), self._begun)


class _ObjectFile(WholeFile):
    def __init__(self, storage: ObjectStorage, key: str, name: str) -> None:
        self._storage = storage
        self._name = name
        self._upload = obstore.open_writer(
            storage.store, key, buffer_size=_PART_BYTES, max_concurrency=_UPLOADS
        )

    def write(self, data: bytes | memoryview, /) -> None:
        with self._storage.translating(self._name):
            self._upload.write(data)

    def close(self, *, whole: bool) -> None:
        with self._storage.translating(self._name):
            if whole:
                self._upload.close()
            else:
                self._upload.__exit__(_AbandonedError, _AbandonedError(), None)  # aborts the upload


class _AbandonedError(Exception):
    """The block in which an object was written has failed."""


class ObjectStream(RemoteStream):
    """An object as it was when it was opened, from an offset on; it can be sought.

    Raise FileNotFoundError without such an object, and another OSError if it cannot be read.
    """

    def __init__(self, bucket: str, key: str, offset: int = 0, *, uri: str = "") -> None:
        self._bucket = bucket
        self._key = key
        self._uri = uri or f"{bucket}/{key}"  # what errors show
        self._position = self._begin = offset
        self._request_bytes = FIRST_BYTES
        self._signature, self._block = self._request(offset, offset + FIRST_BYTES)

    def signature(self) -> FileSignature:
        return self._signature

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read_block(self, max_bytes: int) -> bytes:
        if self._position >= self._size:
            return b""
        if not self._begin <= self._position < self._begin + len(self._block):
            self._take_next()
        begin = self._position - self._begin
        block = bytes(self._block[begin : begin + max_bytes])
        self._position += len(block)
        return block

    @property
    def _size(self) -> int:
        return self._signature.size or 0

    def _take_next(self) -> None:
        """Request the bytes at the position: few after a seek, and more with each request."""
        is_after = self._position == self._begin + len(self._block)
        self._request_bytes = (
            min(8 * self._request_bytes, REQUEST_BYTES) if is_after else FIRST_BYTES
        )
        end = min(self._position + self._request_bytes, self._size)
        present, self._block = self._request(self._position, end)
        self._begin = self._position
        if present != self._signature:
            raise OSError(errno.EIO, "changed while it was read", self._uri)

    def _request(self, begin: int, end: int) -> tuple[FileSignature, memoryview]:
        """Return the present signature of the object, and its bytes in a range."""
        try:
            found, block = self._get(begin, end)
        except (BaseError, OSError, ValueError) as exc:
            raise os_error(exc, self._uri) from exc
        if begin + len(block) < min(end, found.size or 0):
            ended = f"the connection ended after {begin + len(block)} of {found.size} bytes"
            raise OSError(errno.EIO, ended, self._uri)
        return found, block

    def _get(self, begin: int, end: int) -> tuple[FileSignature, memoryview]:
        store = clients(self._bucket, os.getpid())
        try:
            response = obstore.get(store, self._key, options={"range": (begin, end)})
            found, block = response.meta, memoryview(response.bytes())
        except BaseError as exc:
            if not _NO_RANGE.search(str(exc)):
                raise
            found, block = obstore.head(store, self._key), memoryview(b"")
            if found["size"] > begin:
                raise
        return _sign(found["size"], found["last_modified"], found["e_tag"]), block


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
        store = clients(bucket, os.getpid())
        objects = (
            chain.from_iterable(obstore.list(store, folder or None, chunk_size=_LISTED))
            if is_deep
            else obstore.list_with_delimiter(store, folder or None)["objects"]
        )
        for found in objects:
            signature = _sign(found["size"], found["last_modified"], found["e_tag"])
            yield FoundObject(found["path"], signature)
    except (BaseError, OSError, ValueError) as exc:
        raise os_error(exc, uri or f"{bucket}/{folder}") from exc


def _repeated(request: Callable[..., object], *args: object, **options: object) -> None:
    """Make a request, and again after connection errors, which have no status."""
    retry(
        lambda: request(*args, **options),
        _RETRIES,
        is_temporary=lambda exc: type(exc) is _GenericError and not _STATUS.search(str(exc)),
    )


def _sign(size: int, modified: datetime, etag: str | None) -> FileSignature:
    modified_ns = (modified - _EPOCH) // timedelta(microseconds=1) * 1000
    return FileSignature(size=size, modified_ns=modified_ns, version=(etag or "").strip('"'))


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


@lru_cache(maxsize=1)
def _listed_once(bucket: str, prefix: str, process: int, begun: str) -> dict[str, int]:
    """Return the sizes of the objects below a prefix when a process first asks in a run.

    Workers of a cluster may outlive a run that is killed, and see the one that resumes it.
    """
    return ObjectStorage(bucket, prefix).sizes()


@lru_cache(maxsize=8)
def clients(bucket: str, process: int) -> ObjectStore:
    """Return the client of a bucket; a process that was forked needs its own."""
    return from_url(bucket)
