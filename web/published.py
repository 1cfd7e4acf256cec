"""What an agent publishes, as it is stored and shown: the server's half, the sender's half, and its text (surface,
section 3).

The text is the message's body, so it is counted, cut and fetched as a webhook's is. What else the agent chose is
`said`; its salience and what it supersedes are kept there, too, and stand at the top of a diff, not of a message. The
router reads `said` by the names of the members of `Said`.
"""

import msgspec

from storage.records import BodyKind
from web.claims import Facts

DEFAULT_SALIENCE = 0.5

_MARK = b'{"subject":'
"""How `said` of a published message begins, and no other: its first member is ours, not its sender's."""

_encode = msgspec.json.Encoder().encode


class Said(msgspec.Struct, frozen=True, gc=False):
    """What the agent chose, without the text. `event_type` is the kind."""

    subject: str
    tags: tuple[str, ...]
    type: str
    kind: str
    event_type: str
    salience: float = DEFAULT_SALIENCE
    supersedes: str | None = None


_said = msgspec.json.Decoder(Said)


def published_facts(sender: str | None, size: int) -> bytes:
    """Return the server's half as a JSON object: the agent that sent it, authenticated, and the bytes of its body."""
    return _encode(
        Facts(
            method=None,
            source_ip=None,
            size=size,
            verified=None,
            verifier=None,
            verify_error=None,
            sender=sender,
        )
    )


def published_said(
    *,
    subject: str,
    tags: tuple[str, ...],
    type: str,
    kind: str,
    salience: float = DEFAULT_SALIENCE,
    supersedes: str | None = None,
) -> bytes:
    """Return the sender's half as a JSON object."""
    return _encode(Said(subject, tags, type, kind, kind, salience, supersedes))


def text_kind(text: bytes) -> int:
    """Return the `BodyKind` of a text: never JSON, whatever it looks like."""
    return BodyKind.TEXT if text else BodyKind.EMPTY


def is_published(said: bytes) -> bool:
    """Whether this is the sender's half of a published message."""
    return said.startswith(_MARK)


def decode_said(said: bytes) -> Said:
    """Return the sender's half of a published message, decoded."""
    return _said.decode(said)


def message_claims(said: bytes, text: bytes | None) -> bytes:
    """Return `untrusted` of a message as a JSON object, without a text when that is None."""
    of = decode_said(said)
    return b'{"subject":%b%b,"tags":%b,"type":%b,"kind":%b,"event_type":%b}' % (
        _encode(of.subject),
        _text(text),
        _encode(of.tags),
        _encode(of.type),
        _encode(of.kind),
        _encode(of.event_type),
    )


def diff_claims(of: Said, text: bytes | None) -> bytes:
    """Return `untrusted` of a diff, where type and kind stand at the top."""
    return b'{"subject":%b%b,"tags":%b,"event_type":%b}' % (
        _encode(of.subject),
        _text(text),
        _encode(of.tags),
        _encode(of.event_type),
    )


def _text(text: bytes | None) -> bytes:
    return b"" if text is None else b',"text":%b' % _encode(text.decode())
