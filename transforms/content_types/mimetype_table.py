"""The MIME types of file names, and which types begin with the same bytes: see `mimetypes.tsv`."""

from functools import cache
from importlib.resources import files
from typing import NamedTuple

ZIP = "application/zip"
TAR = "application/x-tar"
GZIP = "application/gzip"
BZIP2 = "application/x-bzip2"
XZ = "application/x-xz"


class MimetypeTable(NamedTuple):
    """`families` has only the types that have a family."""

    by_extension: dict[str, str]
    families: dict[str, str]
    archives: frozenset[str]


@cache
def load_table() -> MimetypeTable:
    """Return the table of this package."""
    by_extension: dict[str, str] = {}
    families: dict[str, str] = {}
    archives = set()
    text = files("feedferry.transforms.content_types").joinpath("mimetypes.tsv").read_text("utf-8")
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        family, starred, extensions = line.split("\t")
        mimetype = starred.removeprefix("*")
        if starred != mimetype:
            archives.add(mimetype)
        if family != "-":
            families[mimetype] = family
        by_extension.update(dict.fromkeys(extensions.split(), mimetype))
    return MimetypeTable(by_extension, families, frozenset(archives))


def type_of_name(name: str) -> str | None:
    """Return the MIME type of a file name by its extension; None if it is unknown."""
    stem, _, extension = name.rpartition(".")
    return load_table().by_extension.get(extension.lower()) if stem else None


def is_archive_type(mimetype: str | None) -> bool:
    """Whether files of that type are archives, or single files that are compressed."""
    return mimetype in load_table().archives
