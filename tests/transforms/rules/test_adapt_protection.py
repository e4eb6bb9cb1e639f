"""A format that declares what it holds shows no document to more people without a loss of acl.

The kits of formats test the same of what each format writes.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from feedferry.schemas.record import Record
from feedferry.testing.protected_records import protected_records
from feedferry.testing.protection import of_record
from feedferry.testing.strategies import declarations
from feedferry.transforms.formats import Holds, registered
from feedferry.transforms.rules.adapt import Target, adapter
from feedferry.transforms.rules.normalize import normalize
from support.toy_format import TOY


@pytest.mark.slow
@settings(max_examples=3000, suppress_health_check=[HealthCheck.too_slow])
@given(protected_records(), declarations())
def test_a_declared_format_shows_no_more_without_a_loss(record: Record, holds: Holds) -> None:
    with registered(replace(TOY, holds=holds)):
        (outcome,), losses = adapter(Target(format="toy"))(normalize(record))
    if isinstance(outcome, Record) and not any(loss.field == "acl" for loss in losses):
        before = of_record(normalize(record))
        assert of_record(outcome).shows_no_more_than(before), (holds, outcome)
