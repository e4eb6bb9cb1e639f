"""A stand-in for a data store of Discovery Engine, which answers as the reference of v1 says."""

import json
from collections.abc import Sequence

from feedferry.testing import ScriptedReply, ScriptedRequest

STORE = "/v1/projects/p/locations/global/collections/default_collection/dataStores/docs"
OPERATION = f"{STORE.removeprefix('/v1/')}/branches/0/operations/import-documents-1"
_RESPONSE = "type.googleapis.com/google.cloud.discoveryengine.v1.ImportDocumentsResponse"


class DataStore:
    """A data store; its operations are done when they are read for the third time.

    `failures` are the messages of documents that cannot be imported.
    """

    def __init__(
        self, documents: int, *, failures: Sequence[str] = (), has_acls: bool = True
    ) -> None:
        self.documents, self.failures, self.has_acls = documents, failures, has_acls
        self.imports: list[object] = []
        self.requests: list[str] = []
        self.polls = 0

    def reply(self, request: ScriptedRequest) -> ScriptedReply:
        self.requests.append(f"{request.method} {request.path}")
        if request.path == f"{STORE}/branches/default_branch/documents:import":
            self.imports.append(json.loads(request.body))
            return _json({"name": OPERATION, "metadata": {"createTime": "2026-01-30T08:00:00Z"}})
        if request.path == f"/v1/{OPERATION}":
            return self._operation()
        if (request.method, request.path) == ("GET", STORE):
            store = {"name": STORE.removeprefix("/v1/"), "displayName": "docs"}
            return _json(store | ({"aclEnabled": True} if self.has_acls else {}))
        error = {"code": 404, "message": "Requested entity was not found.", "status": "NOT_FOUND"}
        return _json({"error": error}, status=404)

    def _operation(self) -> ScriptedReply:
        self.polls += 1
        if self.polls < 3:
            return _json({"name": OPERATION, "metadata": {}}, headers={"Retry-After": "0"})
        failed = len(self.failures)
        metadata = {"successCount": str(self.documents - failed)}  # 64 bits are texts in JSON
        if failed:
            metadata["failureCount"] = str(failed)
        samples = [{"code": 3, "message": message} for message in self.failures]
        response = {"@type": _RESPONSE} | ({"errorSamples": samples} if samples else {})
        return _json({"name": OPERATION, "metadata": metadata, "done": True, "response": response})


def _json(
    value: object, *, status: int = 200, headers: dict[str, str] | None = None
) -> ScriptedReply:
    return ScriptedReply(status, json.dumps(value).encode(), "application/json", headers or {})
