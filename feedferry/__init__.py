"""feedferry carries documents between search appliances: the Python API.

::

    import feedferry

    result = feedferry.convert("archive/", "out", to_format="thunderstone", accept_loss={"acl"})
    print(result.exit_code, result.folder)

Settings have the names of the flags of the command, with underscores. The names are loaded when the
first of them is used; Apache Beam is only loaded by `convert` and `run`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from feedferry.public import *  # noqa: F403
    from feedferry.public import __all__ as __all__
else:

    def __getattr__(name: str) -> Any:
        public = import_module("feedferry.public")
        if name != "__all__" and name not in public.__all__:
            raise AttributeError(f"module 'feedferry' has no attribute {name!r}")
        return getattr(public, name)

    def __dir__() -> list[str]:
        return [*__getattr__("__all__")]
