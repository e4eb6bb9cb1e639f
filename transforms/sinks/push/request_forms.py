"""How an appliance takes feeds: path, form fields and feedtypes."""

import msgspec

from schemas.account import Chunk
from schemas.delivery import Door
from schemas.errors import ConfigError
from schemas.feed import (
    CLEANUP,
    FEEDTYPES,
    FULL,
    INCREMENTAL,
    METADATA_AND_URL,
    REPLACE,
    check_datasource,
)
from transforms.formats import Format, all_formats, find_format
from transforms.sinks.push.model import Appliance, ApplianceProtocol

MAX_NAME_LETTERS = 250
_WEB_FEEDTYPES = (METADATA_AND_URL, INCREMENTAL)


class RequestForm(msgspec.Struct, frozen=True, kw_only=True):
    """The form in which an appliance takes the feeds of one endpoint.

    `path` follows the address of the appliance. `source_field` is the form field with the name of
    the datasource; forms without one have no feedtypes either. `feedtypes` can be sent,
    `file_feedtypes` can be stated for a feed file, and a file that states none is sent with
    `default_feedtype`.
    """

    protocol: ApplianceProtocol
    path: str = ""
    source_field: str = ""
    feedtypes: tuple[str, ...] = ()
    file_feedtypes: tuple[str, ...] = ()
    default_feedtype: str | None = None


REQUEST_FORMS = {
    Door.FEED: RequestForm(
        protocol=ApplianceProtocol.FEEDERGATE,
        path="/xmlfeed",
        source_field="datasource",
        feedtypes=FEEDTYPES,
        file_feedtypes=FEEDTYPES,
    ),
    Door.GROUPS: RequestForm(
        protocol=ApplianceProtocol.FEEDERGATE,
        path="/xmlgroups",
        source_field="groupsource",
        feedtypes=(FULL, INCREMENTAL, REPLACE, CLEANUP),
        file_feedtypes=(FULL, INCREMENTAL),
        default_feedtype=INCREMENTAL,  # a full feed would delete the other groups of its source
    ),
    Door.DATA: RequestForm(protocol=ApplianceProtocol.RECVDATA),
}


def pushed_formats(protocol: ApplianceProtocol | None = None) -> list[Format]:
    """Return the formats that appliances take, or that one kind of appliance takes."""
    doors = [door for door, form in REQUEST_FORMS.items() if protocol in (None, form.protocol)]
    return [format for format in all_formats() if format.door in doors]


def request_form(chunk: Chunk, appliance: Appliance) -> RequestForm:
    """Return the form in which an appliance takes a chunk; a chunk without a format is a feed.

    Raises ConfigError if the appliance does not take the format.
    """
    formats = pushed_formats(appliance.protocol)
    for format in formats:
        if chunk.format in (None, format.name) and format.door is not None:
            return REQUEST_FORMS[format.door]
    expected = " or ".join(format.name for format in formats)
    raise ConfigError(f"{chunk.path}: {chunk.format}; expected {expected} for {appliance.url}")


def is_groups(chunk: Chunk) -> bool:
    """Whether a chunk is a groups feed."""
    format = find_format(chunk.format)
    return format is not None and format.door is Door.GROUPS


def check_chunk(chunk: Chunk, appliance: Appliance, *, feedtype: str | None = None) -> None:
    """Raise ConfigError unless the appliance can take the chunk, with its names and feedtype."""
    form = request_form(chunk, appliance)
    if not form.source_field:
        return
    check_source_name(chunk.path, form.source_field, chunk.datasource)
    feedtype = feedtype or chunk.feedtype
    is_web = chunk.datasource == "web" and not is_groups(chunk)
    feedtypes = _WEB_FEEDTYPES if is_web else form.feedtypes
    if feedtype in feedtypes or (is_web and feedtype is None):
        return
    found = "no feedtype" if feedtype is None else f"feedtype={feedtype!r}"
    for_web = " for the datasource web" if is_web else ""
    raise ConfigError(f"{chunk.path}: {found}; expected {' or '.join(feedtypes)}{for_web}")


def check_source_name(where: str, field: str, name: str | None) -> None:
    """Raise ConfigError unless an appliance takes the name of a datasource or groupsource."""
    if name is None:
        raise ConfigError(f"{where}: no {field}; expected a name: give it by --datasource")
    check_datasource(name, label=f"{where}: {field}")
    if len(name) > MAX_NAME_LETTERS:
        raise ConfigError(
            f"{where}: {field} {name[:20]!r}… has {len(name)} letters; "
            f"expected at most {MAX_NAME_LETTERS}"
        )
