"""What agents on machines send each other, as it is stored and shown: the sender's half and its payload (surface,
section 3).

The payload is the message's body, JSON byte for byte as it was received, so it is counted, cut and fetched as a
webhook's is. An empty body is a message without one, whose payload is null. The server's half is that of a published
message, with an agent as its sender, or nobody: then the server or its administrator wrote it.
"""

import msgspec

_MARK = b'{"msg_type":'
"""How `said` of such a message begins, and no other: its first member is ours, not its sender's."""

NO_PAYLOAD = b"null"

_encode = msgspec.json.Encoder().encode


class Said(msgspec.Struct, frozen=True, gc=False):
    """What the sender chose, without the payload. `event_type` is the same as `msg_type`."""

    msg_type: str
    event_type: str


_said = msgspec.json.Decoder(Said)


def mesh_said(msg_type: str) -> bytes:
    """Return the sender's half as a JSON object."""
    return _encode(Said(msg_type, msg_type))


def is_mesh(said: bytes) -> bool:
    """Whether this is the sender's half of a message of the mesh."""
    return said.startswith(_MARK)


def mesh_claims(said: bytes, payload: bytes | None) -> bytes:
    """Return `untrusted` of a message as a JSON object, without a payload when that is None."""
    of = _said.decode(said)
    shown = b"" if payload is None else b',"payload":%b' % (payload or NO_PAYLOAD)
    return b'{"msg_type":%b%b,"event_type":%b}' % (_encode(of.msg_type), shown, _encode(of.event_type))
