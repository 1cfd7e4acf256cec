"""What a data directory begins with: an admin token, on loopback the inbox `demo`, the topic inbox `commons`. And the
cure for a lost token.

The decisions are plain functions of the tokens that exist. `serve`, `init` and `token reset-admin` make the
same changes through the same units, each all or nothing in one transaction. A directory is new while no
admin token was ever made in it; revoking the last one does not make it new again. `commons` is made at every start that
finds none: messages of agents without an address go there.
"""

from collections.abc import Sequence

import msgspec
import structlog

from actors.rules.scope import COMMONS
from actors.tokens import hash_token, mint, new_token_id
from actors.units import ADMIN_COST, CreateInbox, Reading
from postroom.config import Config, ConfigError
from storage.errors import StorageError
from storage.protocols import Lane, Log, Tx
from storage.records import InboxSettings, NewInbox, TokenRecord
from storage.secret import SecretBytes

DEMO_SLUG = "demo"
"""The inbox to try things with: no verifier, so it is only made where nobody but this machine can send to it.
"""

ADMIN_TOKEN_NAME = "admin"  # noqa: S105 - the name of a token, not a token # nosec B105

logger = structlog.get_logger("postroom")


class Found(msgspec.Struct, frozen=True):
    """Store tokens and inboxes together. Never counts as growth: the admin must get in on a full disk."""

    tokens: tuple[TokenRecord, ...]
    inboxes: tuple[NewInbox, ...] = ()
    lane: Lane = Lane.ANSWERS
    cost: int = ADMIN_COST
    grows: bool = False

    def run(self, tx: Tx) -> None:
        """Store them."""
        for token in self.tokens:
            tx.put_token(token)
        for inbox in self.inboxes:
            tx.create_inbox(inbox)


class Founded(msgspec.Struct, frozen=True):
    """What was made. `admin_token` is the text of a token made here (shown once), None when it was given or existed."""

    is_new: bool
    admin_token: str | None
    demo: bool


def plan_found(tokens: Sequence[TokenRecord], config: Config, now_us: int) -> tuple[Found | None, Founded]:
    """Decide what a start must make: nothing in a directory that has had an admin token.

    Raises `ConfigError` when an admin token is configured that is not one of the directory's.
    """
    given = config.admin_token
    if any(token.kind == "admin" for token in tokens):
        if given is not None and not _is_admin(tokens, given, now_us):
            raise ConfigError(
                "POSTROOM_ADMIN_TOKEN is not an admin token of this data directory; leave it out, or make a "
                "new token with `postroom token reset-admin`."
            )
        return None, Founded(is_new=False, admin_token=None, demo=False)
    text = mint("admin") if given is None else None
    digest = hash_token(given.reveal() if given is not None else (text or "").encode())
    inboxes = (
        (NewInbox(DEMO_SLUG, "webhook", "Demo", InboxSettings(retention=config.retention)),)
        if config.is_loopback
        else ()
    )
    unit = Found((_admin(digest, now_us),), inboxes)
    return unit, Founded(is_new=True, admin_token=text, demo=config.is_loopback)


def plan_reset(tokens: Sequence[TokenRecord], now_us: int) -> tuple[Found, str]:
    """Decide a reset: every admin token is revoked and a new one is made. Returns unit and text."""
    text = mint("admin")
    revoked = tuple(
        msgspec.structs.replace(token, revoked_at=now_us)
        for token in tokens
        if token.kind == "admin" and token.revoked_at is None
    )
    return Found((*revoked, _admin(hash_token(text.encode()), now_us))), text


async def found(log: Log, config: Config, now_us: int) -> Founded:
    """Make what a new data directory begins with, before the first request. Raises `ConfigError`, `StorageError`."""
    tokens = await log.read(Reading(lambda snapshot: snapshot.tokens()))
    unit, founded = plan_found(tokens, config, now_us)
    if unit is not None:
        await log.commit(unit)
    return founded


async def found_commons(store: Log, config: Config) -> None:
    """Make the topic inbox `commons` unless there is an inbox of that name; the next start tries what fails now."""
    try:
        there = await store.read(Reading(lambda snapshot: snapshot.inboxes((COMMONS,), "", 1)))
        if not there:
            settings = InboxSettings(retention=config.retention)
            await store.commit(CreateInbox(NewInbox(COMMONS, "topic", "Commons", settings)))
        elif there[0].record.kind != "topic":
            logger.warning("agents cannot publish to commons: the inbox of this name is no topic")
    except StorageError as error:  # a full disk, say: the administrator must get in all the same
        logger.warning("agents cannot publish to commons: it could not be made", error=type(error).__name__)


def _admin(digest: bytes, now_us: int) -> TokenRecord:
    return TokenRecord(
        token_id=new_token_id(),
        hash=digest,
        kind="admin",
        inboxes=None,
        name=ADMIN_TOKEN_NAME,
        created_at=now_us,
    )


def _is_admin(tokens: Sequence[TokenRecord], given: SecretBytes, now_us: int) -> bool:
    digest = SecretBytes(hash_token(given.reveal()))
    return any(
        token.kind == "admin"
        and token.revoked_at is None
        and (token.expires_at is None or token.expires_at > now_us)
        and digest.matches(token.hash)
        for token in tokens
    )
