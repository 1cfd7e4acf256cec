"""A message as a line of a list, and its verdict in words. Pure; the scripts of the page have the same rules
(`static/live.js`).
"""

from collections.abc import Mapping
from typing import Any

import msgspec


class Verdict(msgspec.Struct, frozen=True):
    """A verdict for people. `kind`: how it looks. `sentence`: what it means for this message."""

    kind: str
    words: str
    sentence: str


class Line(msgspec.Struct, frozen=True):
    """One line of a list."""

    seq: int
    received_at: str
    verdict: Verdict
    type: str
    what: str
    size: int


REASONS = {
    "missing signature": "it came without a signature",
    "malformed signature": "its signature is not written as this provider writes one",
    "timestamp outside tolerance": "it was signed too long ago, or the clocks differ; it may be a repeated one",
    "unknown key": "it was signed with a key that this inbox does not know",
    "signature mismatch": "its signature does not fit: another secret was used, or it was changed on the way",
    "missing credentials": "it came without the credentials that this inbox expects",
    "bad credentials": "it came with other credentials than this inbox expects",
}
"""What a `verify_error` means."""


def verdict_of(message: Mapping[str, Any]) -> Verdict:
    """Return the verdict on a message as REST shows it."""
    verified, verifier = message["verified"], message["verifier"]
    if verified is None:
        if message["method"] is None:
            sender = message["sender"]
            who = (
                "The server itself wrote it."
                if sender is None
                else f"The agent {sender} sent it, by its own token."
            )
            return Verdict("plain", "unchecked" if sender is None else "from an agent", who)
        return Verdict(
            "plain", "unchecked", "Nothing was checked: this inbox has no verifier. Anybody may have sent it."
        )
    if verified:
        return Verdict(
            "good",
            "verified",
            f"It was checked as {verifier} and fits a secret of this inbox: who sent it knows that secret."
            " What it says is still its sender's word.",
        )
    reason = REASONS.get(message["verify_error"] or "", message["verify_error"] or "it could not be checked")
    return Verdict("bad", "not verified", f"Do not trust it. Checked as {verifier}: {reason}.")


def what_of(message: Mapping[str, Any]) -> str:
    """Return what a message is about in a line: its request, or who sent it."""
    said = message["untrusted"]
    if message["method"]:
        query = f"?{said['query']}" if said.get("query") else ""
        return f"{message['method']} {said.get('path') or '/'}{query}"
    sender = message["sender"] or "the server"
    return f"{sender}: {said['subject']}" if said.get("subject") else str(sender)


def line_of(message: Mapping[str, Any]) -> Line:
    """Return a message of a page of REST as a line."""
    return Line(
        seq=message["seq"],
        received_at=message["received_at"],
        verdict=verdict_of(message),
        type=message["untrusted"].get("event_type") or "",
        what=what_of(message),
        size=message["size"],
    )
