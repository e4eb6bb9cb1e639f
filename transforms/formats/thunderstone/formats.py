"""The dataload XML of a Thunderstone Search Appliance."""

from functools import partial

from schemas.delivery import Door
from transforms.formats.base import Format
from transforms.formats.thunderstone import adapt, dataload
from transforms.formats.xml.element_names import AMBIGUOUS_CODES
from transforms.formats.xml.elements import cut_spans

THUNDERSTONE = Format(
    name="thunderstone",
    title="Thunderstone Search Appliance dataload (XML)",
    element_names=dataload.ELEMENT_NAMES,
    read=dataload.read,
    split=partial(cut_spans, dataload.ELEMENT_NAMES),
    encoder=dataload.ThunderstoneEncoder,
    adapter=adapt.adapter,
    door=Door.DATA,
    has_record_ends=True,
    hole_codes=AMBIGUOUS_CODES,
    keeps_unlisted=True,
    has_index_updates=True,
)
