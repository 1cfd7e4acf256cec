"""Where private inboxes are: slug and epoch, as their deliveries are shown with."""

from actors.agents import private_slug
from actors.service import Service
from storage.mail_records import AgentRecord
from web.diffs import Place
from web.errors import no_such_inbox

KNOWN_EPOCHS = 10_000
"""Agents whose inbox's epoch is remembered: some 100 bytes each."""


class Places:
    """The private inboxes of one service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._epochs: dict[int, str] = {}

    async def of(self, agent: AgentRecord) -> Place:
        """Return slug and epoch of an agent's inbox. Only another start of the server can change the epoch."""
        slug = private_slug(agent.agent_id)
        epoch = self._epochs.get(agent.inbox_id)
        if epoch is None:
            listing = await self._service.show(slug)
            if listing is None:
                raise no_such_inbox()
            epoch = listing.head.epoch
            if len(self._epochs) >= KNOWN_EPOCHS:
                self._epochs.clear()
            self._epochs[listing.record.inbox_id] = epoch
        return Place(slug, epoch)
