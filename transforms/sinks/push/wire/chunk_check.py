"""Whether an appliance takes a chunk: its format, the name of its datasource, and its feedtype."""

from schemas.account import Chunk
from schemas.delivery import Door
from schemas.errors import ConfigError
from schemas.feed import INCREMENTAL, METADATA_AND_URL, check_datasource
from transforms.formats import Format, all_formats
from transforms.sinks.push.wire.protocol import REQUEST_FORMS, Appliance, ApplianceProtocol

MAX_NAME_LETTERS = 250
_WEB_FEEDTYPES = (METADATA_AND_URL, INCREMENTAL)


def pushed_formats(protocol: ApplianceProtocol | None = None) -> list[Format]:
    """Return the formats that appliances take, or that one kind of appliance takes."""
    doors = protocol.doors if protocol else tuple(REQUEST_FORMS)
    return [format for format in all_formats() if format.door in doors]


def format_of(chunk: Chunk, appliance: Appliance) -> tuple[Format, Door]:
    """Return the format of a chunk, and its door; a chunk without a format is a feed.

    Raises ConfigError if the appliance does not take the format.
    """
    formats = pushed_formats(appliance.protocol)
    for format in formats:
        if chunk.format in (None, format.name) and format.door is not None:
            return format, format.door
    expected = " or ".join(format.name for format in formats)
    raise ConfigError(f"{chunk.path}: {chunk.format}; expected {expected} for {appliance.url}")


def check_chunk(chunk: Chunk, appliance: Appliance) -> None:
    """Raise ConfigError unless the appliance can take the chunk, with its names and feedtype."""
    _, door = format_of(chunk, appliance)
    form = REQUEST_FORMS[door]
    if not form.source_field:
        return
    check_source_name(chunk.path, form.source_field, chunk.datasource)
    feedtype = chunk.feedtype
    is_web = chunk.datasource == "web" and door is Door.FEED
    feedtypes = _WEB_FEEDTYPES if is_web else form.feedtypes
    if feedtype in feedtypes or (is_web and feedtype is None):
        return
    found = "no feedtype" if feedtype is None else f"feedtype={feedtype!r}"
    for_web = " for the datasource web" if is_web else ": give it by --feedtype"
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
