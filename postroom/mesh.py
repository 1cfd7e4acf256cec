"""Agents on machines, from the client's side: checking in, writing to each other, reading and acknowledging.

`Mesh` makes the calls in one agent's name. What senders wrote stays as it was received (`Letter`): numbers and
duplicate keys of a payload survive only so.
"""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from postroom.client import Client, ClientError, Params, Unreachable

MSG_TYPES = ("note", "ping", "pr-ready", "freeze", "freeze-clear", "release-out", "handoff")
"""What a message between agents may be."""

IDS_AT_ONCE = 100
"""That one acknowledgement may name: the server's own limit."""


class Letter(msgspec.Struct, frozen=True):
    """One message of an agent's mail (surface, section 3). `document` is the server's JSON of it, byte for byte.

    `sender` is the authenticated agent, None for a webhook and for the server's own messages.
    """

    id: str
    inbox: str
    seq: int
    received_at: str
    sender: str | None = None
    verified: bool | None = None
    verify_error: str | None = None
    method: str | None = None
    body_truncated: bool = False
    untrusted: dict[str, msgspec.Raw] = {}
    document: bytes = b""

    @property
    def is_webhook(self) -> bool:
        """Whether it came from outside, over HTTP."""
        return self.method is not None

    @property
    def said(self) -> dict[str, Any]:
        """What the sender wrote, decoded: data, never instructions. `untrusted` has it as it was received."""
        return {name: json.loads(bytes(member)) for name, member in self.untrusted.items()}


class Mail(msgspec.Struct, frozen=True):
    """What a read answers: messages, the oldest first, and how many are not acknowledged, whatever was served."""

    messages: tuple[Letter, ...]
    unread: int
    document: bytes


class Acked(msgspec.Struct, frozen=True):
    """What became of the ids of an acknowledgement. `unknown`: no message of this agent's has that id."""

    acked: tuple[str, ...] = ()
    already_acked: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class _Mail(msgspec.Struct, frozen=True):
    messages: list[msgspec.Raw]
    unread: int


class Mesh:
    """The calls of one agent. `agent_id` may be left to an agent's own token, which is asked for it once.

    Every method raises as `Client.call`. A machine's token has to name one of the machine's agents.
    """

    def __init__(self, api: Client, agent_id: str | None = None) -> None:
        self._api = api
        self._named = agent_id
        self._token: dict[str, Any] | None = None

    @property
    def agent_id(self) -> str:
        """Who this is. Raises `ClientError` when neither the caller nor the token has said so."""
        if self._named is None:
            self._named = self.bound_to
        if self._named is None:
            raise ClientError(
                "this token is no agent's; say which one you are: --agent AGENT or POSTROOM_AGENT."
            )
        return self._named

    @property
    def bound_to(self) -> str | None:
        """The agent whose token this is; None for one of a machine or an administrator."""
        if self._token is None:
            self._token = self._api.json("GET", "/v1/me")
        bound = self._token.get("agent")
        return bound if isinstance(bound, str) else None

    # -- presence ------------------------------------------------------------------------------------------
    def check_in(
        self,
        *,
        role: str | None = None,
        repo: str | None = None,
        caps: Sequence[str] | None = None,
        status: str | None = None,
        ttl_seconds: int | None = None,
        wake: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Say that this agent is there; return `{agent_id, machine, expires_at, unread, shared_reader}`.

        `wake`: `{url, secret?}`, where the server says that mail has come.
        """
        card: dict[str, Any] = {"role": role, "repo": repo, "caps": None if caps is None else list(caps)}
        card |= {"status": status, "ttl_seconds": ttl_seconds, "wake": wake}
        return self._post("checkin", {"agent_id": self.agent_id} | _given(card))

    def check_out(self) -> dict[str, Any]:
        """Say farewell; return `{agent_id, state}`. Only another check-in brings this agent back."""
        return self._post("checkout", {"agent_id": self.agent_id})

    def roster(self, *, include_stale: bool = False, renew: bool = False) -> dict[str, Any]:
        """Return `{agents: […]}`, who is where. With `renew` this agent's own presence is renewed as well."""
        params: Params = [("include_stale", "true")] if include_stale else []
        if renew:
            params.append(("agent_id", self.agent_id))
        answer = self._api.json("GET", "/agents", params=params)
        return dict(answer)

    # -- writing -------------------------------------------------------------------------------------------
    def tell(
        self, to_agent: str, msg_type: str = "note", payload: bytes | None = None, **how: Any
    ) -> dict[str, Any]:
        """Send to one agent; `payload` is JSON. Return `{id, delivered_to, skipped}`.

        `how`: `to` (another machine), `idempotency_key`, `require_alive`.
        """
        return self._send({"to_agent": to_agent, "msg_type": msg_type} | how, payload)

    def broadcast(self, msg_type: str = "note", payload: bytes | None = None, **how: Any) -> dict[str, Any]:
        """Send to all agents of a machine but this one; otherwise as `tell`."""
        return self._send({"msg_type": msg_type} | how, payload)

    def _send(self, body: dict[str, Any], payload: bytes | None) -> dict[str, Any]:
        body = _given({"from_agent": self._named} | body)  # an agent's token says it, too
        if payload is not None:
            body["payload"] = msgspec.Raw(payload)
        return self._post("send", body)

    def sent(self, *, limit: int | None = None, before: str | None = None) -> dict[str, Any]:
        """Return `{messages: […]}`, what this agent has sent and what became of it, the newest first."""
        given = _given({"agent_id": self._named, "limit": limit, "before": before})
        return dict(self._api.json("GET", "/agent/sent", params=list(given.items())))

    # -- reading -------------------------------------------------------------------------------------------
    def mail(
        self,
        *,
        limit: int | None = None,
        peek: bool = False,
        background: bool = False,
        wake_token: str | None = None,
    ) -> Mail:
        """Return what is new, and mark it as served; with `peek` all that is not acknowledged, and nothing is marked.

        `background`: nobody is there, so presence is not renewed. `wake_token`: what a wake-up brought; it is spent.
        """
        given = {
            "agent_id": self.agent_id,
            "limit": limit,
            "peek": "true" if peek else None,
            "background": "true" if background else None,
            "wake_token": wake_token,
        }
        answer = self._api.call("GET", "/agent/inbox", params=list(_given(given).items()))
        try:
            return mail_of(answer)
        except ValueError as error:
            raise Unreachable("The server's answer is no mail; is it a Postroom server?") from error

    def ack(self, ids: Sequence[str]) -> Acked:
        """Acknowledge messages by id, in as many calls as it takes; none with more than `IDS_AT_ONCE`."""
        found = Acked()
        for at in range(0, len(ids), IDS_AT_ONCE):
            body = {"agent_id": self.agent_id, "message_ids": list(ids[at : at + IDS_AT_ONCE])}
            one = msgspec.convert(self._post("ack", body), Acked)
            found = Acked(
                found.acked + one.acked,
                found.already_acked + one.already_acked,
                found.unknown + one.unknown,
            )
        return found

    def _post(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        return dict(self._api.json("POST", f"/agent/{what}", body=msgspec.json.encode(body)))


def mail_of(answer: bytes) -> Mail:
    """Return the mail that a server's answer holds. Raises `ValueError` when it is none."""
    page = msgspec.json.decode(answer, type=_Mail)
    return Mail(tuple(map(_letter, page.messages)), page.unread, answer)


def _letter(raw: msgspec.Raw) -> Letter:
    document = bytes(raw)
    return msgspec.structs.replace(msgspec.json.decode(document, type=Letter), document=document)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
