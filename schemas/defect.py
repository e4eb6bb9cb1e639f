"""Defects of feedferry that appear while one record is processed: each costs that record only.

Every place that turns a `RecordError` into a `Reject` catches `Exception` and asks `record_error`
what to do with it. So a KeyError in a reader becomes a reject like any other: the record is set
aside with its original bytes, the other records go on, and the run reports the defect at its end.
"""

import re
from types import TracebackType

from schemas.errors import FeedferryError, RecordError
from schemas.reject import Reject

DEFECT = "defect"
"""The code of rejects that are caused by a defect of feedferry."""

_NOT_OF_ONE_RECORD = (FeedferryError, OSError, MemoryError)
_PACKAGES = ("schemas", "transforms", "pipelines")
_TYPE = re.compile(r"a defect of feedferry: ([\w.]+) in ")


def record_error(exc: Exception) -> RecordError:
    """Return the RecordError that one record is rejected for; raise `exc` if it concerns more.

    A RecordError is returned as it is. Other errors of feedferry, OSError and MemoryError are
    raised again: they are not caused by one record. Any other exception is a defect. Its message is
    left out, because it may contain a part of the document.
    """
    if isinstance(exc, RecordError):
        return exc
    if isinstance(exc, _NOT_OF_ONE_RECORD):
        raise exc
    reason = (
        f"a defect of feedferry: {_name(type(exc))} in {_place(exc.__traceback__)};"
        " expected a record, or a reason why it is refused; please report this"
    )
    return RecordError(DEFECT, reason)


def defect_type(reject: Reject) -> str | None:
    """Return the name of the exception type if a defect caused the reject, else None.

    >>> error = record_error(KeyError())
    >>> defect_type(Reject(code=error.code, reason=error.reason, stage="read"))
    'KeyError'
    """
    if reject.code != DEFECT:
        return None
    found = _TYPE.search(reject.reason)
    return found[1] if found else "unknown"


def _name(kind: type[Exception]) -> str:
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _place(traceback: TracebackType | None) -> str:
    """Return module and line of the innermost frame of our own packages."""
    place = "an unknown place"
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in _PACKAGES:
            place = f"{module}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place
