"""One kit per format, from which the tests of all formats are made; see `Kit`.

A format needs its line in `KITS` only. What its kit leaves out is derived from the format.
"""

from kits import canonical, command_stream, gsa, thunderstone
from kits.base import Kit
from transforms.formats import FORMATS

__all__ = ["KITS", "XML_KITS", "Kit"]

KITS = {
    kit.name: kit
    for kit in (
        gsa.FEED,
        gsa.GROUPS,
        gsa.GROUPS_CSV,
        thunderstone.THUNDERSTONE_KIT,
        command_stream.LISTER,
        command_stream.RETRIEVER,
        command_stream.AUTHORIZER,
        canonical.AVRO,
        canonical.JSON_LINES,
    )
}
without_kit = [format_.name for format_ in FORMATS if format_.name not in KITS]
assert not without_kit, f"no kit in tests/kits/__init__.py for {', '.join(without_kit)}"
XML_KITS = {name: kit for name, kit in KITS.items() if kit.format.is_xml}
