"""A trial of the script by which ACLs are changed, before anything is written.

A server may run no scripts: by its settings, or without the module `lang-painless`. Then a document
whose ACL changes, or whose new version is refused, would be shown to the same people as before.
"""

from typing import Protocol

from feedferry.transforms.sinks.push.model import ApplianceResponse
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.opensearch.results import fix_of, words_of
from feedferry.transforms.sinks.push.wire.search_index.json_request import json_body

FIX = "expected a server that runs scripts in Painless, by which ACLs are changed"
_BUSY = 429, 503
_NO_CHANGE: dict[str, object] = {
    "scripted_upsert": True,
    "upsert": {},
    "script": {"lang": "painless", "source": "ctx.op = 'none'"},
}


class _Requests(Protocol):
    def request(
        self, path: str, body: RequestBody | None = None, *, method: str = "GET"
    ) -> ApplianceResponse: ...


def try_script(requests: _Requests, suffix: str) -> ApplianceResponse:
    """Return the response to an update of a document that is not there; it writes nothing."""
    path = f"{suffix}/_update/feedferry-trial?require_alias=true"
    return requests.request(path, json_body(_NO_CHANGE), method="POST")


def fault_of_scripts(response: ApplianceResponse) -> str:
    """Return why ACLs cannot be changed, empty if they can, or if the server is busy."""
    if response.is_success or response.status in _BUSY:
        return ""
    return f"{words_of(response)}; {fix_of(response, FIX)}"
