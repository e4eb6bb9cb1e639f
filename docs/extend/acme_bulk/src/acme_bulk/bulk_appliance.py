"""A search server that takes `_bulk` requests, and has a result for each action.

A request of status 200 may have refused actions. An action of status 429 or 503 may succeed later;
URLs are ids, so that a chunk can be sent again.
"""

import json
from typing import Any

from feedferry.extend import (
    Address,
    ApplianceProtocol,
    ApplianceResponse,
    CheckLine,
    ChunkPart,
    Endpoint,
    Refusal,
    RequestBody,
    ResponseMeaning,
    RunSession,
    SendContext,
    Verdict,
    describe,
    fail_of,
    ok,
    quote,
    verdict_on,
)

_PATH = "/_bulk"
_NOT_FOUND, _TEMPORARY = 404, (429, 503)


def find_url(address: Address) -> str | None:
    """Return the URL of an index for the address of its `_bulk` endpoint."""
    if not address.path.endswith(_PATH):
        return None
    return f"{address.scheme}://{address.host}{address.port}{address.path.removesuffix(_PATH)}"


def make_request(part: ChunkPart, _context: SendContext) -> tuple[str, RequestBody]:
    return _PATH, RequestBody(content_type="application/x-ndjson", length=part.size, part=part)


def refresh(session: RunSession) -> None:
    """Make the documents of a run visible to searches, when all of them are settled."""
    session.step("refresh", lambda: session.send("/_refresh", None))


def judge(response: ApplianceResponse, part: ChunkPart | None) -> Verdict | None:
    """Return the meaning of a response; None lets its status decide."""
    body = _object(response)
    if not response.is_success or body is None:
        return None
    if part is None:
        return (
            Verdict(meaning=ResponseMeaning.ACCEPTED, message="OK") if "_shards" in body else None
        )
    items = _items(body)
    if items is None or len(items) != part.records:
        found = f"results of {len(items or ())} actions; expected {part.records}"
        return verdict_on(response, ResponseMeaning.REFUSED, found)
    if any(item["status"] in _TEMPORARY for item in items):
        return verdict_on(response, ResponseMeaning.RETRY, "busy; expected all actions to be done")
    refused = tuple(
        Refusal(number, quote(str(item.get("error", item["status"]))))
        for number, item in enumerate(items)
        if item["status"] >= 300 and not (item["status"] == _NOT_FOUND and item["is_delete"])
    )
    message = f"{len(items) - len(refused)} of {len(items)} actions"
    return Verdict(meaning=ResponseMeaning.ACCEPTED, message=message, refused=refused)


def judge_probe(response: ApplianceResponse) -> CheckLine:
    """Judge the response to a GET of the number of documents."""
    if response.is_success and "count" in (_object(response) or {}):
        return ok("index", describe(response))
    return fail_of("index", f"{response.status}, {describe(response)}; expected an index")


ACME = ApplianceProtocol(
    name="acme",
    endpoints=(Endpoint(name="bulk", formats=("acme-bulk",), path=_PATH),),
    addresses="http://HOST/INDEX/_bulk",
    find_url=find_url,
    acceptance="a result for each action",
    fix_server="expected a search server there",
    fix_address="check ⟦url⟧: expected http://HOST/INDEX/_bulk",
    fix_trust="allow the user of ⟦auth⟧ to write to the index",
    make_request=make_request,
    judge=judge,
    judge_probe=judge_probe,
    probe_path="/_count",
    finish=refresh,
    max_request_bytes=90 << 20,
)


def _object(response: ApplianceResponse) -> dict[str, Any] | None:
    try:
        value = json.loads(response.body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _items(body: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the results of the actions, None if there are none in the expected form."""
    try:
        return [
            {**result, "status": int(result["status"]), "is_delete": action == "delete"}
            for item in body["items"]
            for action, result in item.items()
        ]
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
