"""The list of withheld documents: those that no user finds, as their new versions are rejected."""

import csv
import io
from pathlib import Path

from feedferry.schemas.printable import printable
from feedferry.schemas.reject import Reject, storable
from feedferry.transforms.storage.atomic import AtomicFile
from feedferry.transforms.storage.storage import LocalStorage

WITHHELD = "withheld.csv"
"""The list in the folder of a run; that of a push is next to its receipts."""


def csv_line(*values: str) -> bytes:
    r"""Return a line of a CSV file.

    >>> csv_line("a", 'b "c", d')
    b'a,"b ""c"", d"\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue().encode("utf-8", "backslashreplace")


HEAD = csv_line("url", "datasource", "code", "where", "message")


def withheld_line(url: str, datasource: str | None, reject: Reject) -> bytes:
    """Return the line of a document that is withheld, by the reject of its new version."""
    stated = storable(reject)
    return csv_line(url, datasource or "", stated.code, stated.where, printable(stated.reason))


class WithheldList:
    """The list of a push; without documents, there is no file."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._file = AtomicFile(LocalStorage(path.parent), path.name)
        self._count = 0

    def add(self, url: str, datasource: str | None, reject: Reject) -> None:
        if self._file.is_empty:
            self._file.write(HEAD)
        self._file.write(withheld_line(url, datasource, reject))
        self._count += 1

    def close(self) -> int:
        """Finish the file; return the number of documents."""
        self._file.close(whole=True)
        return self._count
