"""A sample of documents that is the same each time, and in every input: it depends on the URL."""

from collections.abc import Iterable
from hashlib import sha256
from heapq import nsmallest

import msgspec

_HASH_BYTES = 8
_EVERY = 1 << 8 * _HASH_BYTES


class Sample(msgspec.Struct, frozen=True):
    """The keys whose hashes are below a limit: a share of all keys, or the first `count` of them.

    A sample by `count` has no limit until it knows all keys.
    """

    limit: int = _EVERY
    count: int | None = None

    @classmethod
    def share(cls, share: float) -> "Sample":
        """Return the sample of a share of all keys, from 0 to 1."""
        return cls(limit=round(share * _EVERY))

    @property
    def needs_keys(self) -> bool:
        return self.count is not None

    def of(self, keys: Iterable[bytes]) -> "Sample":
        """Return the sample of `count` of these keys, which are distinct; of all if they are fewer.

        Memory grows with `count`.
        """
        if self.count is None:
            return self
        hashes = nsmallest(self.count, map(_hash, keys))
        return Sample(limit=hashes[-1] + 1 if hashes else 0)

    def __contains__(self, key: bytes) -> bool:
        return self.limit >= _EVERY or _hash(key) < self.limit


ALL = Sample()


def _hash(key: bytes) -> int:
    return int.from_bytes(sha256(key).digest()[:_HASH_BYTES], "big")
