"""A small server of object storage for tests, which counts requests and answers them late.

It speaks as much of S3, Google Cloud Storage and Azure as lists and reads need.
"""

import json
import re
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

from support.remotes import BUCKET, s3_at, send, web_server

PAGE_KEYS = 1000
_MODIFIED = "2026-01-02T03:04:05.000Z"
_HEADERS = {"Last-Modified": "Fri, 02 Jan 2026 03:04:05 GMT", "ETag": '"1"'}


class Bucket:
    """The objects of one bucket, by their keys; `seconds_of` says how long an answer takes.

    `asked` has the method and the key of each request, `most` the number of requests at once. The
    objects `denied` may not be read.
    """

    def __init__(
        self, objects: Mapping[str, bytes], seconds_of: Callable[[str], float] = lambda key: 0.0
    ) -> None:
        self.asked: list[str] = []
        self.most = 0
        self.denied: set[str] = set()
        self._objects = objects
        self._keys = sorted(objects)
        self._seconds_of = seconds_of
        self._present = 0
        self._lock = threading.Lock()

    def answer(self, handler: SimpleHTTPRequestHandler) -> bool:
        url = urlsplit(handler.path)
        key = unquote(url.path).partition(f"/{BUCKET}")[2].lstrip("/")
        with self._lock:
            self.asked.append(f"{handler.command} {key}".rstrip())
            self._present += 1
            self.most = max(self.most, self._present)
        time.sleep(self._seconds_of(key))
        with self._lock:
            self._present -= 1
        if not key:
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            page = self._azure_page(query) if "comp" in query else self._s3_page(query)
            send(handler, page.encode(), {"Content-Type": "application/xml"})
        elif key in self.denied or key not in self._objects:
            send(handler, b"", {}, status=403 if key in self.denied else 404)
        elif handler.headers["Range"] and not self._objects[key]:
            send(handler, b"", {}, status=416)
        else:
            self._send_object(handler, self._objects[key])
        return True

    def _s3_page(self, query: dict[str, str]) -> str:
        prefix, after = query.get("prefix", ""), query.get("continuation-token", "")
        begin = bisect_right(self._keys, after) if after else bisect_left(self._keys, prefix)
        following = self._keys[begin : begin + PAGE_KEYS + 1]
        keys = [key for key in following if key.startswith(prefix)]
        page, has_more = keys[:PAGE_KEYS], len(keys) > PAGE_KEYS
        token = escape(page[-1]) if has_more else ""
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{_MODIFIED}</LastModified>"
            f"<ETag>&quot;1&quot;</ETag><Size>{len(self._objects[key])}</Size></Contents>"
            for key in page
        )
        return (
            f"<ListBucketResult><IsTruncated>{str(has_more).lower()}</IsTruncated>"
            f"<NextContinuationToken>{token}</NextContinuationToken>{contents}</ListBucketResult>"
        )

    def _azure_page(self, query: dict[str, str]) -> str:
        blobs = "".join(
            f"<Blob><Name>{escape(key)}</Name><Properties>"
            f"<Last-Modified>{_HEADERS['Last-Modified']}</Last-Modified><Etag>1</Etag>"
            f"<Content-Length>{len(self._objects[key])}</Content-Length>"
            "<Content-Type>text/plain</Content-Type></Properties></Blob>"
            for key in self._keys
            if key.startswith(query.get("prefix", ""))
        )
        return f"<EnumerationResults><Blobs>{blobs}</Blobs></EnumerationResults>"

    def _send_object(self, handler: SimpleHTTPRequestHandler, content: bytes) -> None:
        begin, end = 0, len(content)
        if ranged := re.fullmatch(r"bytes=(\d+)-(\d*)", handler.headers["Range"] or ""):
            begin, end = int(ranged[1]), min(end, int(ranged[2] or end) + 1)
        headers = _HEADERS | {"Content-Range": f"bytes {begin}-{end - 1}/{len(content)}"}
        send(handler, content[begin:end], headers, status=206 if ranged else 200)


@contextmanager
def bucket_server(bucket: Bucket) -> Iterator[Bucket]:
    """Serve a bucket at s3://, gs://, az:// and abfs:// in this process."""
    with (
        web_server(Path(), bucket.answer) as server,
        s3_at(server.root),
        pytest.MonkeyPatch.context() as patch,
    ):
        account = {"gcs_base_url": server.root, "disable_oauth": True}
        empty = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        patch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(account | empty))
        patch.setenv("GOOGLE_ALLOW_HTTP", "true")
        patch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
        patch.setenv("AZURITE_BLOB_STORAGE_URL", server.root)
        yield bucket
