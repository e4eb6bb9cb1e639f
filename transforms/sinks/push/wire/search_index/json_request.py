"""Bodies of requests that are no `_bulk`."""

import msgspec

from feedferry.transforms.sinks.push.wire.body import RequestBody


def json_body(value: object) -> RequestBody:
    """Return a body of JSON."""
    data = msgspec.json.encode(value)
    return RequestBody(content_type="application/json", length=len(data), before=data)
