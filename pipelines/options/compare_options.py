"""Options of `feedferry diff`, `verify` and `compact`, each declared with its flag."""

import msgspec

from pipelines.options.flags import Flag, declare
from pipelines.options.section import Section
from pipelines.options.value_parsers import OUTPUT_FILE, OUTPUT_FOLDER, ValueType

_CHECK = Section.CHECK


def _parse_fields(text: str) -> frozenset[str]:
    return frozenset(filter(None, (name.strip() for name in text.split(","))))


_IGNORED = ValueType("FIELD,...", _parse_fields, lambda names: ",".join(sorted(names)))


class CompareOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared, and where a feed of the differences is written."""

    ignore: frozenset[str] = frozenset()
    emit: str | None = None
    page: str | None = None


declare(
    CompareOptions,
    _CHECK,
    ignore=Flag(
        "Fields that are not compared, such as modified or metadata:X; * matches any text.",
        _IGNORED,
    ),
    emit=Flag("Write a feed of the differences, in the format --to.", OUTPUT_FOLDER),
    page=Flag("Write the differences as a page.", OUTPUT_FILE, names=("--html",)),
)


class VerifyOptions(CompareOptions, frozen=True, kw_only=True):
    """Where the documents are looked for."""

    against: str
    held_in: str | None = None


declare(
    VerifyOptions,
    _CHECK,
    against=Flag(
        "Address of a rehearsal appliance, a spool, or another input.",
        metavar="URL|INPUT",
        names=("--against",),
    ),
    held_in=Flag("Datasource or profile of the appliance.", metavar="NAME", default="all"),
)
