"""Names of parts → what builds them. One registry is made at every load; there is no global one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rlcore.foundation.errors import ConfigError, nearest_name

CATEGORIES = (
    "market", "simulator", "observation", "action", "reward", "auxiliary", "seeds", "task", "network", "agent", "logger",
)  # fmt: skip


class Registry(Mapping[tuple[str, str], Any]):
    """Entries by (category, kind). ``entry`` is a pydantic spec class with a literal field ``kind``."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], Any] = {}

    def register(self, category: str, kind: str, entry: Any) -> None:
        """Add one entry.

        Raises:
            ConfigError: for an unknown category, or a kind that is taken.
        """
        if category not in CATEGORIES:
            hint = nearest_name(category, CATEGORIES)
            raise ConfigError(f"category must be one of {', '.join(CATEGORIES)}, was {category!r}{hint}")
        if (category, kind) in self._entries:
            raise ConfigError(f"kind must be unused in category {category!r}, was {kind!r}: give the part another kind")
        self._entries[category, kind] = entry

    def kinds(self, category: str) -> dict[str, Any]:
        """Return kind → entry of one category, in order of registration."""
        return {kind: entry for (at, kind), entry in self._entries.items() if at == category}

    def __getitem__(self, key: tuple[str, str]) -> Any:
        category, kind = key
        if key not in self._entries:
            known = self.kinds(category)
            hint = nearest_name(kind, known)
            raise ConfigError(f"kind in category {category!r} must be one of {', '.join(known) or '(none)'}, was {kind!r}{hint}")
        return self._entries[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
