"""Error replies of a cluster, in the form of OpenSearch 2.19."""

from typing import Any

NOT_PLAYED = "not_played_exception"


class ClusterError(Exception):
    """A request is answered with this status and error, and changes nothing."""

    def __init__(self, status: int, kind: str, reason: str, **details: object) -> None:
        super().__init__(reason)
        self.status = status
        self.cause: dict[str, Any] = {"type": kind, "reason": reason, **details}

    @property
    def body(self) -> dict[str, Any]:
        return {"error": {"root_cause": [self.cause], **self.cause}, "status": self.status}


def not_played(what: str, expected: str) -> ClusterError:
    """Return the error for a request that a real server may know, but a rehearsal does not."""
    return ClusterError(501, NOT_PLAYED, f"a rehearsal does not play {what}; expected {expected}")


def no_index(name: str) -> ClusterError:
    return ClusterError(
        404,
        "index_not_found_exception",
        f"no such index [{name}]",
        index=name,
        **{"resource.id": name, "resource.type": "index_or_alias", "index_uuid": "_na_"},
    )


def no_alias(name: str) -> ClusterError:
    reason = (
        f"no such index [{name}] and [require_alias] request flag is [true] and [{name}] is not an"
        " alias"
    )
    return ClusterError(404, "index_not_found_exception", reason, index=name, index_uuid="_na_")


def bad_argument(reason: str) -> ClusterError:
    return ClusterError(400, "illegal_argument_exception", reason)


def invalid(reason: str) -> ClusterError:
    kind = "action_request_validation_exception"
    return ClusterError(400, kind, f"Validation Failed: 1: {reason};")
