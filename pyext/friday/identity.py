"""What nodes are compared by, replayed ones (nodes.py) and those of a recording as data (recordings.py)."""
from __future__ import annotations

from .errors import UsageError


class NodeId(int):
    """An id that stands for a node: an int, but true when it is 0, and no text equals it."""

    def __bool__(self) -> bool:
        """A node is true, node 0 too."""
        return True

    def __eq__(self, other: object) -> bool:
        """Equal to nodes and ints of this id. Raises UsageError for a text, which could not be equal: "n3" may look like a node."""
        if isinstance(other, (str, bytes)):
            raise UsageError(f"a node was compared with the text {other!r}, which no node equals: compare node.name with it, or take nodes[{other!r}]")
        return int.__eq__(self, other)  # type: ignore[no-any-return]

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    __hash__ = int.__hash__
