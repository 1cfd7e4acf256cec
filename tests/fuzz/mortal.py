"""A store that a test takes away from those who use it: what they have not stored by then is lost, as in a crash."""

from typing import TypeVar

from storage.errors import StorageClosed
from storage.protocols import Health, Log, Look, Unit

T = TypeVar("T")


class Mortal:
    """A store that can be taken away: from then on nothing is stored any more."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.dead = False

    @property
    def health(self) -> Health:
        return self._log.health

    async def commit(self, unit: Unit[T]) -> T:
        if self.dead:
            raise StorageClosed("the process has ended")
        return await self._log.commit(unit)

    async def read(self, look: Look[T]) -> T:
        return await self._log.read(look)
