"""Requests that read from an appliance: its documents, for a comparison."""

import math
import time
from collections.abc import Callable

from feedferry.schemas.errors import TargetError
from feedferry.transforms.net.retry import RetryPauses, RetryPolicy
from feedferry.transforms.net.web_client import TEMPORARY
from feedferry.transforms.sinks.push.model import ApplianceResponse
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.client import ApplianceClient
from feedferry.transforms.sinks.push.wire.protocol import Appliance
from feedferry.transforms.sinks.push.wire.responses import retry_after_seconds

_POLICY = RetryPolicy(first_seconds=0.5, max_seconds=5.0, max_attempts=3, max_total_seconds=60.0)


class TargetReader:
    """Reads from one appliance; a request that fails for a while is repeated a few times.

    A response may take `max_seconds`, as its head may.
    """

    def __init__(
        self,
        appliance: Appliance,
        client: ApplianceClient,
        *,
        max_seconds: float = math.inf,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.appliance = appliance
        self._client = client
        self._max_seconds = max_seconds
        self._sleep = sleep

    def request(
        self,
        path: str,
        body: RequestBody | None = None,
        *,
        method: str = "GET",
        is_below_address: bool = True,
    ) -> ApplianceResponse:
        """Return a response of any status; raise TargetError if there is none."""
        pauses = RetryPauses(_POLICY)
        while True:
            response = self._client.request(
                method,
                path,
                body,
                max_seconds=self._max_seconds,
                is_below_address=is_below_address,
            )
            may_succeed = response.status in TEMPORARY or not (
                response.status or response.is_permanent
            )
            at_least = retry_after_seconds(response)
            seconds = pauses.next_seconds(at_least=at_least) if may_succeed else None
            if seconds is None:
                break
            self.pause(seconds)
        if response.error:
            raise TargetError(response.error)
        return response

    def pause(self, seconds: float) -> None:
        self._sleep(seconds)
