"""
The queue of items: each once, and those that come back once more after all the others.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Any

from evalframe.core.executor import LATER, NOTHING


class Backlog:
    """
    Items in their order, taken one by one; see `Source`.

    Args:
        items: The items; looked at only when one is taken.
        may_return: Whether items may come back. Then every item taken is to be told `done`, and nobody is told that there is nothing
            left before the last of them is.
    """

    def __init__(self, items: Iterable[Any], *, may_return: bool = False) -> None:
        self._fresh = iter(items)
        self._returned: deque[Any] = deque()
        self._may_return = may_return
        self._under_way = 0
        self._lock = threading.Lock()

    def take(self) -> Any:
        """The next item: fresh ones first."""
        with self._lock:
            item = next(self._fresh, NOTHING)
            if item is NOTHING and self._returned:
                item = self._returned.popleft()
            if item is NOTHING:
                return LATER if self._may_return and self._under_way else NOTHING
            self._under_way += 1
            return item

    def give_back(self, item: Any) -> None:
        """Put an item at the back of the queue."""
        with self._lock:
            self._returned.append(item)

    def done(self) -> None:
        """An item that was taken is dealt with."""
        if not self._may_return:
            return
        with self._lock:
            self._under_way -= 1

    def left(self) -> list[Any]:
        """Items that came back and were not taken again."""
        with self._lock:
            return list(self._returned)
