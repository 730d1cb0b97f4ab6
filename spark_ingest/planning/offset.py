"""How far a query is: the next segment of each collector, and which readings it has had.

As JSON it stands in Spark's checkpoint, so its form is kept for as long as there are checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_ingest.planning.seen import Seen

VERSION = 1


class OffsetError(Exception):
    """An offset of another program, or of a newer one of ours."""


@dataclass(frozen=True, slots=True)
class Offset:
    next: Mapping[str, int] = field(default_factory=dict)  # by collector
    seen: Seen = field(default_factory=Seen)

    def to_json(self) -> dict[str, object]:
        """Equal offsets are equal text: keys in one order."""
        following = {name: self.next[name] for name in sorted(self.next)}
        found = {"v": VERSION, "next": following, "seen": self.seen.encoded()}
        return {**found, "forgotten": self.seen.forgotten} if self.seen.forgotten else found

    @classmethod
    def from_json(cls, given: Mapping[str, object]) -> Offset:
        """A new one each time: `seen` may be added to."""
        version = given.get("v")
        if version != VERSION:
            raise OffsetError(
                f"the checkpoint has an offset of version {version!r}, this program writes "
                f"{VERSION}; read on with the program that wrote it, or begin a new checkpoint"
            )
        try:
            following = {str(name): int(n) for name, n in given["next"].items()}  # type: ignore[attr-defined]
            seen = Seen.decoded(given["seen"], given.get("forgotten", 0))  # type: ignore[arg-type]
            return cls(following, seen)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise OffsetError(f"the checkpoint has a damaged offset: {error!r}") from None
