"""The check of an appliance, by one GET: connection, certificate, trust, backlog and clock."""

import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

from msgspec.structs import replace

from feedferry.schemas.check import CheckLine, fail_of, ok, warn
from feedferry.schemas.units import counted
from feedferry.transforms.sinks.push.model import ApplianceResponse
from feedferry.transforms.sinks.push.throttle.backlog import BacklogLimits
from feedferry.transforms.sinks.push.wire.client import ApplianceClient
from feedferry.transforms.sinks.push.wire.protocol import Appliance, ApplianceReader
from feedferry.transforms.sinks.push.wire.reader import TargetReader

CERTIFICATE_DAYS = 30
CLOCK_SECONDS = 60.0
_DAY_SECONDS = 86400.0


def check_appliance(
    appliance: Appliance, limits: BacklogLimits, *, seconds: float, now: float
) -> Iterator[CheckLine]:
    """Yield the lines of an appliance; `now` is the time of this machine since 1970."""
    most = min(appliance.connect_seconds, seconds)
    with ApplianceClient(replace(appliance, connect_seconds=most)) as client:
        reader = TargetReader(appliance, client, max_seconds=seconds)
        yield from _check(reader, client.probe(max_seconds=seconds), limits, now=now)


def _check(
    reader: ApplianceReader, response: ApplianceResponse, limits: BacklogLimits, *, now: float
) -> Iterator[CheckLine]:
    """Yield the lines of the response to a probe, and of further requests."""
    appliance = reader.appliance
    if response.error:
        yield fail_of("appliance", response.error)
        return
    yield ok("appliance", f"{appliance.target}: status {response.status}")
    if response.certificate_ends is not None:
        yield _check_certificate(response.certificate_ends, now)
    yield appliance.protocol.judge_probe(response)
    if appliance.protocol.read_backlog is not None:
        count = appliance.protocol.read_backlog(response)
        if isinstance(count, int):
            yield _check_backlog(count, limits)
    yield from _check_clock(response, now)
    if appliance.protocol.check is not None:
        yield from appliance.protocol.check(reader)


def _check_certificate(ends: float, now: float) -> CheckLine:
    """Check the last day; the client refuses an expired certificate."""
    days = int((ends - now) // _DAY_SECONDS)
    found = f"valid until {time.strftime('%Y-%m-%d', time.gmtime(ends))}, {days} days"
    if days < CERTIFICATE_DAYS:
        return warn("certificate", found, "renew it at the appliance before it expires")
    return ok("certificate", found)


def _check_backlog(count: int, limits: BacklogLimits) -> CheckLine:
    found = f"{counted(count, 'feed')} waiting; ceiling {limits.ceiling:,}, floor {limits.floor:,}"
    if count > limits.ceiling:
        cure = f"a push waits until fewer than {limits.floor:,} feeds wait; start it later"
        return warn("backlog", found, cure)
    return ok("backlog", found)


def _check_clock(response: ApplianceResponse, now: float) -> Iterator[CheckLine]:
    try:
        skew = parsedate_to_datetime(response.date).timestamp() - now
    except ValueError:  # no date, or none that can be read
        return
    if abs(skew) <= CLOCK_SECONDS:
        yield ok("clock", "that of the appliance agrees")
        return
    direction = "ahead of" if skew > 0 else "behind"
    found = f"that of the appliance is {abs(skew):,.0f} s {direction} ours"
    yield warn("clock", found, "set both by NTP: dates of documents are compared with them")
