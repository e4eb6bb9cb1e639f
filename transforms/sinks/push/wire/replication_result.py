"""The XML of the reply of a Thunderstone appliance to data: a ThunderstoneReplicationResult.

**Spec:** Parametric Search Appliance manual, "Reply Format". The replies are modelled on the manual
and were never compared with an appliance. The manual does not say where a Status about the whole
request is placed: here it has an ItemResult of its own, and Rows is 0. The manual's example has a
`DP` with Type D; its text has it with DP only, and so do these replies.
"""

from feedferry.schemas.record import Action
from feedferry.transforms.formats.text.xml_text import holds
from feedferry.transforms.formats.thunderstone.rows import TYPES
from feedferry.transforms.formats.xml.serializer import element

OK = "OK"
FAIL = "FAIL"
UNKNOWN_TYPE = "FAIL_UNKNOWNTYPE"
NO_DATA = "NODATA"
NOT_ALLOWED = "Not Allowed"
NO_PROFILE = "No Profile"
NOT_FOUND = "Not found"
VERSION = "Version 5.01.0 20051010 (feedferry, modelled on the manual)\n2005-10-10 12:34:56"

HEAD = b'<?xml version="1.0" encoding="UTF-8"?>\n<ThunderstoneReplicationResult>\n'
_ID = element("rid", "000000000")
_TAIL = b"</ThunderstoneReplicationResult>\n"


def refusal(status: str) -> bytes:
    """Return the reply to a request that is refused as a whole."""
    return HEAD + item_result(status) + end(0)


def item_result(
    status: str, *, kind: str | None = None, count: int | None = None, notice: str = ""
) -> bytes:
    """Return the result of an Item of a Type; `count` is that of a deletion by pattern."""
    stated = (
        ("Type", kind),
        ("DP", None if count is None else str(count)),
        ("Status", status),
        ("Info", notice or None),
    )
    inner = "".join(element(name, _xml_text(text)) for name, text in stated if text is not None)
    return f"<ItemResult>{_ID}{inner}</ItemResult>\n".encode()


def end(rows: int) -> bytes:
    """Return the end of a reply with the results of a number of Items."""
    figures = f"{element('Rows', str(rows))}\n{element('Version', VERSION)}\n"
    return figures.encode() + _TAIL


def type_of(action: Action) -> str:
    """Return the Type of an Item with an action."""
    return str(TYPES.encode(action))


def _xml_text(text: str) -> str:
    """Return a text that XML can hold; the reason for a damaged Item may quote anything."""
    return text if holds(text) else "".join(char if holds(char) else "?" for char in text)
