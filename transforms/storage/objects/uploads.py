"""Uploads to S3 that were begun and not ended, as by a writer that was killed.

obstore neither lists nor aborts them, but it signs URLs with the credentials that it has found. A
query that is to be signed is put into the endpoint of a client: the path that is appended to it
then ends up in the parameter `x-id`, which S3 ignores.

**Spec**: Amazon S3 API Reference, ListMultipartUploads and AbortMultipartUpload.
"""

from collections.abc import Container, Mapping
from datetime import timedelta
from http import HTTPStatus
from typing import Literal, NamedTuple
from urllib.parse import quote, urlencode

import httpx2
import obstore
from lxml import etree
from obstore.exceptions import BaseError
from obstore.store import S3Store

from feedferry.schemas.errors import FatalError
from feedferry.transforms.net.web_client import AGENT

_VALID = timedelta(minutes=5)
_TIMEOUT_SECONDS = 60
_PROBE = "x"
_ENDED = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND)
"""The upload is aborted, or has ended meanwhile."""


class Upload(NamedTuple):
    """An upload to a key, which is its name after the prefix."""

    name: str
    id: str


class Uploads:
    """The open uploads below a prefix of a bucket, `s3://NAME`."""

    def __init__(self, bucket: str, prefix: str, store: S3Store) -> None:
        self._bucket = bucket
        self._prefix = prefix
        plain = obstore.sign(store, "GET", _PROBE, _VALID)
        self._endpoint = plain.partition("?")[0].removesuffix(f"/{_PROBE}")

    def find(self) -> list[Upload]:
        """Return the first thousand open uploads."""
        text = self._request("GET", "", {"uploads": "", "prefix": self._prefix}, (HTTPStatus.OK,))
        found = etree.fromstring(text, etree.XMLParser(resolve_entities=False)).iter("{*}Upload")
        return [self._decode(element) for element in found]

    def abort(self) -> list[Upload]:
        """Abort all uploads, and return them. The server removes their parts."""
        aborted: dict[Upload, None] = {}
        while found := [upload for upload in self.find() if upload not in aborted]:
            for upload in found:
                path = f"/{quote(self._prefix + upload.name)}"
                self._request("DELETE", path, {"uploadId": upload.id}, _ENDED)
                aborted[upload] = None
        return list(aborted)

    def _decode(self, element: etree._Element) -> Upload:
        key = element.findtext("{*}Key", "")
        return Upload(key.removeprefix(self._prefix), element.findtext("{*}UploadId", ""))

    def _request(
        self,
        method: Literal["GET", "DELETE"],
        path: str,
        query: Mapping[str, str],
        expected: Container[int],
    ) -> bytes:
        """Send a signed request; raise FatalError for a response with another status."""
        endpoint = f"{self._endpoint}{path}?{urlencode(query)}&x-id="
        store = S3Store.from_url(self._bucket, endpoint=endpoint, virtual_hosted_style_request=True)
        try:
            url = obstore.sign(store, method, _PROBE, _VALID)
            response = httpx2.request(
                method, url, headers={"User-Agent": AGENT}, timeout=_TIMEOUT_SECONDS
            )
        except (httpx2.TransportError, BaseError) as exc:
            raise self._error(f"{type(exc).__name__}: {exc}") from exc
        if response.status_code not in expected:
            raise self._error(f"{response.status_code} {response.reason_phrase}")
        return response.content

    def _error(self, problem: str) -> FatalError:
        return FatalError(
            f"{self._bucket}/{self._prefix}: open uploads: {problem}; expected the permissions"
            " s3:ListBucketMultipartUploads and s3:AbortMultipartUpload: grant them, or let a"
            " lifecycle rule of the bucket abort uploads"
        )
