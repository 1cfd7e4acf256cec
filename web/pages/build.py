"""The page, put together: which screens there are, and which routes of REST they call."""

from collections.abc import Iterable
from pathlib import Path

from actors.service import Service
from web.admin import Admin
from web.agents import AgentRoutes
from web.auth import Authenticator
from web.machines import MachineRoutes
from web.mesh_routes import MeshRoutes
from web.options import WebOptions
from web.pages.agents import AgentScreens
from web.pages.app import Pages
from web.pages.beacons import BeaconScreens
from web.pages.creating import CreationScreens
from web.pages.inboxes import READ_API_OFF, InboxScreens
from web.pages.live import PageStreams
from web.pages.messages import MessageScreens
from web.pages.server import ServerScreens
from web.pages.sessions import Sessions
from web.pages.settings import SettingsScreens
from web.pages.tokens import TokenScreens
from web.pulse import Pulse
from web.readers import ReaderRoutes
from web.reads import Reads
from web.routes import Route, switched_off
from web.searching import Searching
from web.slots import Slots


def build_pages(
    service: Service,
    options: WebOptions,
    authenticator: Authenticator,
    *,
    slots: Slots,
    pulse: Pulse,
    data_dir: Path,
    own: Iterable[Route] = (),
) -> Pages:
    """Return the page. `data_dir`: whose disk is looked at. `own`: routes of REST that belong to the server as a whole,
    of which there is one of each.
    """
    sessions = Sessions(service.tokens, options)
    # Not those that the front has: there every call of an agent's token is a sign of life.
    reading = (*Reads(service, options).routes(), *Searching(service, options).routes())
    if not options.read_api_enabled:
        reading = switched_off(reading, READ_API_OFF)
    calls = (
        *reading,
        *Admin(service, options).routes(),
        *AgentRoutes(service, options).routes(),
        *MachineRoutes(service, options).routes(),
        *ReaderRoutes(service).routes(),
        *MeshRoutes(service, options).routes(),
        *own,
    )
    streams = PageStreams(sessions, service, options, slots, pulse)
    screens = (
        InboxScreens(options, streams).screens(),
        MessageScreens(service, options).screens(),
        CreationScreens().screens(),
        SettingsScreens().screens(),
        TokenScreens().screens(),
        AgentScreens().screens(),
        BeaconScreens().screens(),
        ServerScreens(options, slots, data_dir).screens(),
    )
    return Pages(service, options, authenticator, sessions, calls, screens)
