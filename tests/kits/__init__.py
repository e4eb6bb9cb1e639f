"""One kit per format, from which the tests of all formats are made; see `Kit`.

A kit is found in any module of this package. What it leaves out is derived from the format.
"""

from importlib import import_module
from pkgutil import iter_modules

from feedferry.transforms.formats import FORMATS
from kits.base import Kit

__all__ = ["KITS", "XML_KITS", "Kit"]

_KITS = {
    kit.name: kit
    for module in iter_modules(__path__)
    for kit in vars(import_module(f"{__name__}.{module.name}")).values()
    if isinstance(kit, Kit)
}
without_kit = [format_.name for format_ in FORMATS.ours if format_.name not in _KITS]
assert not without_kit, f"no kit in tests/kits/ for {', '.join(without_kit)}"
KITS = {format_.name: _KITS[format_.name] for format_ in FORMATS.ours}
XML_KITS = {name: kit for name, kit in KITS.items() if kit.format.is_xml}
