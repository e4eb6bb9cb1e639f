"""Keep libraries from being loaded for Beam that no conversion uses.

Beam loads them if they are installed. Together they take 80 MB of each process. A process of the
user, who calls the Python API, is left as it is.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

_UNUSED = frozenset({"pandas", "pyarrow", "pymongo"})
_IMPORTING = ("importlib.", "feedferry.pipelines.convert.workers.unused_libraries")


class _UnusedLibraries:
    """Refuses to find libraries for modules of Beam; others find them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> None:
        if name in _UNUSED and _importer().partition(".")[0] == "apache_beam":
            raise ModuleNotFoundError(f"No module named {name!r} for Beam", name=name)


def _importer() -> str:
    """Return the name of the module that imports another one."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = str(frame.f_globals.get("__name__"))
        if not name.startswith(_IMPORTING):
            return name
        frame = frame.f_back
    return ""


@contextmanager
def without_unused_libraries() -> Iterator[None]:
    """Let Beam find no libraries that are not used."""
    finder = _UnusedLibraries()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
