"""Object storage: S3, Google Cloud Storage and Azure, through obstore.

Credentials and endpoints come from the environment of each process, as AWS_ENDPOINT_URL. Objects
are sent in parts, and appear when the last one is there. `put_if_absent` is one request with a
condition (`If-None-Match: *`). If the response to it is lost, the library repeats the request and
is refused because of its own object. So the object is read back, and compared.
"""

import errno
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from typing import IO, NamedTuple

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import ObjectStore, from_url

from schemas.account import SpanFile
from schemas.errors import ConfigError, FatalError
from transforms.storage.block_stream import BlockStream
from transforms.storage.storage import Storage, WholeFile

SCHEMES = ("s3", "gs", "az", "abfs")
_PART_BYTES = 8 << 20
_UPLOADS = 4
_BUFFER_BYTES = 1 << 20
_LISTED = 1000
_MAX_ERROR_CHARS = 300
_URI = re.compile(r"([a-z0-9]+)://([^/?#@:]+)(?:/(.*))?", re.DOTALL)


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
        if match is None or match[1] not in SCHEMES:
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

    def open(self, name: str) -> IO[bytes]:
        with self.translating(name, is_read=True):
            stream = _ObjectStream(self.store, self._key(name))
        return io.BufferedReader(stream, _BUFFER_BYTES)

    def put(self, name: str, data: bytes) -> None:
        with self.translating(name):
            obstore.put(self.store, self._key(name), data, use_multipart=False)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        with self.translating(name):
            try:
                obstore.put(self.store, self._key(name), data, mode="create", use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                return self.get(name) == data
        return True

    def replace_if(self, name: str, data: bytes, version: Version) -> Version | None:
        """Replace a version of an object; return the new one, None if the object has another."""
        with self.translating(name):
            try:
                obstore.put(
                    self.store,
                    self._key(name),
                    data,
                    mode={"e_tag": version.etag},
                    use_multipart=False,
                )
            except (AlreadyExistsError, PreconditionError, FileNotFoundError):
                if self.get(name) != data:
                    return None
        return self.version(name)

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
            batches = obstore.list(self.store, self._key(prefix) or None, chunk_size=_LISTED)
            return {found["path"][begin:]: found["size"] for batch in batches for found in batch}

    def remove(self, prefix: str) -> None:
        with self.translating(prefix):
            key = self._key(prefix)
            names = [found["path"] for batch in obstore.list(self.store, key) for found in batch]
            obstore.delete(self.store, names or [key])

    def make(self, name: str) -> None:
        pass

    def remove_files(self, names: Iterable[str]) -> None:
        """Remove files, many by one request."""
        if keys := [self._key(name) for name in names]:
            with self.translating(""):
                obstore.delete(self.store, keys)

    def modified_ns(self, name: str) -> int:
        return 0

    def are_whole(self, files: Sequence[SpanFile], *, verify: bool = True) -> bool:
        """Compare the sizes: what was uploaded is complete, and the server keeps it."""
        folders = {file.path.rpartition("/")[0] for file in files}
        sizes = {name: size for folder in folders for name, size in self.sizes(folder).items()}
        return all(sizes.get(file.path) == file.bytes for file in files)

    def snapshot(self) -> Storage:
        return _ListedStorage(self._bucket, self._prefix)

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
            text = str(exc).partition("\n")[0][:_MAX_ERROR_CHARS]
            raise FatalError(
                f"{self.locate(name)}: {text}; expected to read and write there: check the"
                " credentials and the endpoint in the environment"
            ) from exc


class _ListedStorage(ObjectStorage):
    """A storage that answers from one list, so that what is not there costs no request."""

    def get(self, name: str) -> bytes | None:
        return super().get(name) if name in self._listed else None

    def are_whole(self, files: Sequence[SpanFile], *, verify: bool = True) -> bool:
        return all(self._listed.get(file.path) == file.bytes for file in files)

    @property
    def _listed(self) -> dict[str, int]:
        return listed_once(self._bucket, self._prefix, os.getpid())


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


class _ObjectStream(BlockStream):
    def __init__(self, store: ObjectStore, key: str) -> None:
        self._reader = obstore.open_reader(store, key, buffer_size=_BUFFER_BYTES)

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._reader.seek(offset, whence)

    def read_block(self, max_bytes: int) -> bytes:
        try:
            return bytes(self._reader.read(max_bytes))
        except BaseError as exc:
            raise OSError(errno.EIO, str(exc).partition("\n")[0][:_MAX_ERROR_CHARS]) from exc


@lru_cache(maxsize=1)
def listed_once(bucket: str, prefix: str, process: int) -> dict[str, int]:
    """Return the sizes of the objects below a prefix when this process first asks for them.

    The driver clears this at the begin of a run, because a process may execute several.
    """
    return ObjectStorage(bucket, prefix).sizes()


@lru_cache(maxsize=8)
def clients(bucket: str, process: int) -> ObjectStore:
    """Return the client of a bucket; a process that was forked needs its own."""
    return from_url(bucket)
