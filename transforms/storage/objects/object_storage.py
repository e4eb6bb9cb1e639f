"""Object storage: S3, Google Cloud Storage and Azure, through obstore.

Credentials and endpoints come from the environment of each process, as AWS_ENDPOINT_URL. Objects
are sent in parts, and appear when the last one is there. `put_if_absent` is one request with a
condition (`If-None-Match: *`). After a connection error it is repeated. If the first request had
arrived, the second one is refused because of its own object. So the object is read back, and
compared.
"""

import errno
import io
import math
import os
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import IO, Literal, NamedTuple

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import S3Store

from feedferry.schemas.account import SpanFile
from feedferry.schemas.errors import ConfigError
from feedferry.transforms.storage.objects.object_stream import ObjectStream
from feedferry.transforms.storage.objects.requests import (
    client_of,
    list_objects,
    repeated,
    translated_errors,
)
from feedferry.transforms.storage.storage import OBJECT_SCHEMES, Storage, WholeFile

_PART_BYTES = 8 << 20
_UPLOADS = 4
_BUFFER_BYTES = 1 << 20
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
        return _ObjectFile(self._bucket, self._key(name))

    def open(self, name: str, offset: int = 0) -> IO[bytes]:
        with translated_errors(self._bucket, self._key(name), is_read=True):
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
        with translated_errors(self._bucket, self._key(name)):
            try:
                repeated(
                    obstore.put,
                    client_of(self._bucket),
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
        with translated_errors(self._bucket, self._key(name)):
            try:
                found = obstore.head(client_of(self._bucket), self._key(name))
            except FileNotFoundError:
                return None
        return Version(found["e_tag"], found["last_modified"])

    def sizes(self, prefix: str = "") -> dict[str, int]:
        begin = len(self._key("")) + 1 if self._prefix else 0
        with translated_errors(self._bucket, self._key(prefix)):
            objects = list_objects(self._bucket, self._key(prefix))
            return {found.key[begin:]: found.signature.size or 0 for found in objects}

    def remove(self, prefix: str) -> None:
        with translated_errors(self._bucket, self._key(prefix)):
            key = self._key(prefix)
            names = [found.key for found in list_objects(self._bucket, key)]
            repeated(obstore.delete, client_of(self._bucket), names or [key])

    def remove_files(self, names: Iterable[str]) -> None:
        if keys := [self._key(name) for name in names]:
            with translated_errors(self._bucket, self._prefix):
                repeated(obstore.delete, client_of(self._bucket), keys)

    def folders(self) -> list[str]:
        """Return the names of the folders directly in this one."""
        with translated_errors(self._bucket, self._prefix):
            found = obstore.list_with_delimiter(client_of(self._bucket), self._prefix or None)
        return [prefix.rpartition("/")[2] for prefix in found["common_prefixes"]]

    def uploads(self, *, abort: bool) -> list[str]:
        store = client_of(self._bucket)
        if not isinstance(store, S3Store):
            return []
        from feedferry.transforms.storage.objects.uploads import Uploads

        with translated_errors(self._bucket, self._prefix):
            uploads = Uploads(self._bucket, f"{self._prefix}/" if self._prefix else "", store)
        found = uploads.abort() if abort else uploads.find()
        return [f"{upload.name} (upload {upload.id})" for upload in found]

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

    def _key(self, name: str) -> str:
        return "/".join(filter(None, (self._prefix, name)))


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
    def __init__(self, bucket: str, key: str) -> None:
        self._place = bucket, key
        self._upload = obstore.open_writer(
            client_of(bucket), key, buffer_size=_PART_BYTES, max_concurrency=_UPLOADS
        )

    def write(self, data: bytes | memoryview, /) -> None:
        with translated_errors(*self._place):
            self._upload.write(data)

    def close(self, *, whole: bool) -> None:
        with translated_errors(*self._place):
            if whole:
                self._upload.close()
            else:
                self._upload.__exit__(_AbandonedError, _AbandonedError(), None)  # aborts the upload


class _AbandonedError(Exception):
    """The block in which an object was written has failed."""


@lru_cache(maxsize=1)
def _listed_once(bucket: str, prefix: str, process: int, begun: str) -> dict[str, int]:
    """Return the sizes of the objects below a prefix when a process first asks in a run.

    Workers of a cluster may outlive a run that is killed, and see the one that resumes it.
    """
    return ObjectStorage(bucket, prefix).sizes()
