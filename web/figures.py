"""What the web layer counts for the metrics: plain numbers, changed in the event loop, read by whoever publishes them.

Every name that is counted by comes from a table of ours: an outcome, a verifier, a verdict, a status. Nothing that a
sender chose is among them, so nobody outside decides how many figures there are.
"""

from collections.abc import Iterable

from actors.commands import Appended
from web.faults import as_api_error
from web.limits import ClientGone
from web.verify.model import Judgement

STORED, DUPLICATE, ANSWERED, GONE = "stored", "duplicate", "answered", "client_gone"
"""What can become of a request for an inbox besides an error. `answered`: a handshake, or a look whether the address is
alive."""

REFUSALS = (
    "not_found",
    "rate_limited",
    "invalid_argument",
    "payload_too_large",
    "busy",
    "timeout",
    "unauthenticated",
    "method_not_allowed",
    "insufficient_storage",
    "shutting_down",
    "internal",
)
"""The codes that a request for an inbox ends with, in about the order in which they are found out. Others would be
counted, too; these are there from the start, so that a first one is seen as an increase."""

VERIFIED, UNCHECKED = "verified", "none"
"""Verdicts besides the wordings of what is wrong: a genuine request, and one to an inbox without a verifier."""


class IngestFigures:
    """Requests for inboxes since the start: what became of them, by outcome; and the verdicts, by verifier and wording.

    An outcome is one of the four above, or the code of the error that was answered.
    """

    __slots__ = ("outcomes", "verdicts")

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = dict.fromkeys((STORED, DUPLICATE, ANSWERED, GONE, *REFUSALS), 0)
        self.verdicts: dict[tuple[str, str], int] = {}

    def judged(self, verifier: str, judgement: Judgement) -> str:
        """Count a verdict and return it; `verifier` is the preset's name."""
        verdict = judgement.error or (UNCHECKED if judgement.verified is None else VERIFIED)
        key = (verifier, verdict)
        self.verdicts[key] = self.verdicts.get(key, 0) + 1
        return verdict

    def took(self, appended: Appended | None) -> str:
        """Count a request that was taken in (None: there was nothing to store) and return the outcome."""
        outcome = ANSWERED if appended is None else DUPLICATE if appended.duplicate else STORED
        self.outcomes[outcome] += 1
        return outcome

    def failed(self, error: Exception) -> str:
        """Count a request that ended with an exception and return the outcome."""
        told = as_api_error(error)
        outcome = GONE if isinstance(error, ClientGone) else "internal" if told is None else told.code
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        return outcome


FAULT = 500
"""The status of a defect."""


class AnswerFigures:
    """Answers since the start, of everything but ingest: how many, by part of the surface and status."""

    __slots__ = ("counts",)

    def __init__(self, surfaces: Iterable[str] = ()) -> None:
        """For each of `surfaces` there is an answer 500 to count from the start, so that a first one is an increase."""
        self.counts: dict[tuple[str, int], int] = {(surface, FAULT): 0 for surface in dict.fromkeys(surfaces)}

    def gave(self, surface: str, status: int) -> None:
        """Count one."""
        key = (surface, status)
        self.counts[key] = self.counts.get(key, 0) + 1


class CallFigures:
    """Calls over gRPC since the start, by the name of the status that they ended with."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def ended(self, status: str) -> None:
        """Count one."""
        self.counts[status] = self.counts.get(status, 0) + 1
