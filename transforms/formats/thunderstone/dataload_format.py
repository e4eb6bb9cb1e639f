"""The dataload XML of a Thunderstone Search Appliance."""

import re
from functools import partial

import msgspec

from feedferry.schemas.record import Action
from feedferry.transforms.formats.base import FIELDS, HINTS, Format, Holds, deferred
from feedferry.transforms.formats.element_names import ElementNames

DATATYPES = "urn:schemas-microsoft-com:datatypes"
PARAMETRIC = "http://www.thunderstone.com/ParametricSearch/1.0/"
ELEMENT_NAMES = ElementNames(
    root="ThunderstoneReplication",
    records=("Item",),
    prefixes=(("dt", DATATYPES), ("u", PARAMETRIC)),
)


class DataloadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`fields` pairs a metadata name with the field of its values."""

    fields: tuple[tuple[str, str], ...] = ()


HOLDS = Holds(
    fields=FIELDS - {"acl", "overwrite_acls", "arrival", "provenance", *HINTS},
    extras=("Item/",),
    encodings=True,
    actions=frozenset(Action) - {Action.UPDATE_INDEX},
    partly={"metadata": "values that are no text; line ends become spaces"},
    absolute_urls=True,
)

THUNDERSTONE = Format(
    name="thunderstone",
    title="Thunderstone Search Appliance dataload (XML)",
    related_acls=(re.compile(rb"inherit"),),
    element_names=ELEMENT_NAMES,
    read=deferred("thunderstone.dataload:read"),
    split=partial(deferred("xml.borders:cut"), ELEMENT_NAMES),
    borders=partial(deferred("xml.borders:ElementBorders"), ELEMENT_NAMES),
    places=partial(deferred("xml.places:XmlPlaces"), ELEMENT_NAMES),
    encoder=deferred("thunderstone.dataload:ThunderstoneEncoder"),
    holds=HOLDS,
    values=deferred("thunderstone.rows:stated_values"),
    options=(DataloadOptions,),
    adapter=deferred("thunderstone.adapt_dataload:adapter"),
    keeps_unlisted=True,
    has_record_ends=True,
)
