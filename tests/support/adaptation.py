"""Records of one document, and what the rules of a target make of them."""

from feedferry.schemas.notice import Loss
from feedferry.schemas.record import Action, Arrival, Content, Meta, Record
from feedferry.transforms.rules.adapt import Target, adapt

URL = "http://www.example.com/plan.html"
HTML = Content(b"<p>Plan</p>")
COLOUR = Meta("colour", "red")


def make(**stated: object) -> Record:
    fields = {"url": URL, "action": Action.ADD} | stated
    return Record(**fields)  # type: ignore[arg-type] # of many types


def document(**stated: object) -> Record:
    pushed = {"arrival": Arrival.PUSHED, "content": HTML, "mimetype": "text/html"}
    return make(**(pushed | stated))


def lost(field: str, detail: str) -> Loss:
    return Loss(field=field, url=URL, detail=detail)


def adapted(record: Record, target: Target) -> tuple[Record, list[str]]:
    """The adapted record, and each loss as `field: detail`."""
    [outcome], losses = adapt(record, target)
    assert isinstance(outcome, Record)
    assert {loss.url for loss in losses} <= {URL}
    return outcome, [f"{loss.field}: {loss.detail}" for loss in losses]
