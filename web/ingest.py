"""Ingest: a webhook comes in, is verified on its raw bytes, and is durable before it is answered (surface,
section 4).

The order is the contract's: inbox and method, rate, framing, size while reading with bytes in flight and
deadline, the handshake of the inbox's own preset, verification, policy, and only then the store. A refused sender
causes no write: a large body waits in a spool and is staged after the verdict. The verifier is fed each piece as it
arrives, so a signature costs no second pass.
"""

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec
import trio

from actors.commands import Appended, Draft, PutSecret, Refusal
from actors.fanout import Ticket
from actors.service import Service
from storage.clock import wall_clock_us
from storage.records import INLINE_BODY_BYTES, BodyKind, InboxRecord, Secret, Verdict
from web.appending import append_draft
from web.claims import Held, body_kind, facts, redacted_path, said
from web.errors import ApiError, unauthenticated
from web.figures import IngestFigures
from web.grammar import is_slug, ulid_text
from web.handshakes.model import Adoption, Handshake
from web.handshakes.providers import compile_handshake
from web.http import Answer, Request
from web.limits import BodiesInFlight, Incoming, framed_twice, too_slow
from web.options import WebOptions
from web.rates import Rates
from web.spool import Spool
from web.verify.model import Judgement, SignedHead, Verifier
from web.verify.registry import compile_verifier

PREFIX = b"/in/"
ALLOW = ((b"allow", b"POST, PUT, GET, HEAD"),)
ALIVE = Answer(200)
BODILESS = frozenset({"xero"})
"""Presets whose provider takes an answer with a body for a failure, and after some tries switches the webhook off."""
DUPLICATE = (b"postroom-duplicate", b"true")
DEDUPE_KEY_BYTES = 16
"""A hash instead of the id itself bounds what a sender can make us remember (study, section 3)."""
KNOWN_INBOXES = 16_384
"""Inboxes whose verifier is kept compiled, each a few KiB; compiling one again takes about 20 µs."""
ADOPTED_SECRET = "default"  # noqa: S105 - the name of a secret, not its value # nosec B105
"""The name under which a secret is kept that a handshake brought."""
VERDICTS = {True: Verdict.VERIFIED, False: Verdict.FAILED, None: Verdict.NONE}


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """What is derived from an inbox's record once, for as long as the record is in force."""

    record: InboxRecord
    verifier: Verifier
    response: Answer | None
    handshake: Handshake | None
    rejects: bool
    secret_headers: frozenset[bytes]
    held: Held


class Taken(msgspec.Struct, frozen=True, gc=False):
    """What became of one request: the answer to its sender, and where its message is with the verdict on it; both None
    when nothing was stored (a handshake, a look whether the address is alive).
    """

    answer: Answer
    appended: Appended | None = None
    judgement: Judgement | None = None


INERT = (b"application/json", b"text/plain")
"""Types of which no browser runs anything, as it is told not to guess another one."""

SANDBOX = (b"content-security-policy", b"sandbox; default-src 'none'")
"""With an answer of another type that an inbox has of its own: a browser that was led here runs nothing of it, because
the web page has the same origin.
"""


class Ingest:
    """Answers everything below `/in/`."""

    def __init__(
        self,
        service: Service,
        options: WebOptions,
        spool_dir: Path,
        clock: Callable[[], int] = wall_clock_us,
    ) -> None:
        """`spool_dir` is where large bodies wait for their verdict, in files without a name. `clock` gives the time of
        receipt, by which timestamps are judged, in µs since the Unix epoch.
        """
        self._service = service
        self._clock = clock
        self._options = options
        self._spool_dir = spool_dir
        self._public_url = (options.public_url or "").rstrip("/")
        self._rates: Rates[int] = Rates()  # by inbox_id
        self.in_flight = BodiesInFlight(options.bodies_in_flight_bytes)
        self.figures = IngestFigures()
        self._prepared: dict[int, Prepared] = {}

    @property
    def public_url(self) -> str | None:
        """The URL of this server as senders know it, None where nobody has told it."""
        return self._public_url or None

    async def __call__(self, request: Request, incoming: Incoming) -> Answer:
        """Answer one request. Raises as `take`."""
        return (await self.take(request, incoming)).answer

    async def take(self, request: Request, incoming: Incoming) -> Taken:
        """Take one request in, and count it. Raises `ApiError`, `ClientGone`, and what `Service.append` raises."""
        try:
            taken = await self._take(request, incoming)
        except Exception as error:
            self.figures.failed(error)
            raise
        self.figures.took(taken.appended)
        if taken.answer.content_type.partition(b";")[0].strip().lower() in INERT:
            return taken
        confined = msgspec.structs.replace(taken.answer, headers=(*taken.answer.headers, SANDBOX))
        return msgspec.structs.replace(taken, answer=confined)

    async def _take(self, request: Request, incoming: Incoming) -> Taken:
        slug, slash, rest = request.raw_path[len(PREFIX) :].partition(b"/")
        inbox = await self._find(slug.decode("latin-1"))
        if request.method not in ("POST", "PUT"):
            return Taken(self._without_body(self._prepare(inbox), request))
        received_at_us = self._clock()
        if inbox.settings.rate_per_minute is not None:
            wait = self._rates.take(inbox.inbox_id, inbox.settings.rate_per_minute)
            if wait is not None:
                message = f"The limit of this inbox is {inbox.settings.rate_per_minute} per minute."
                raise ApiError("rate_limited", message, retry_after=wait)
        if incoming.framed_twice:
            raise framed_twice()
        prepared = self._prepare(inbox)
        path = slash + rest
        check = prepared.verifier.begin(
            SignedHead(
                request.method,
                self.signed_url(inbox, request),
                request.headers,
                received_at_us,
                path,
                request.raw_query,
            )
        )
        limit = self._limit(inbox)
        with Spool(self._spool_dir) as body, self.in_flight.share() as share:
            incoming.check_declared(limit)
            with trio.move_on_after(self._options.body_timeout_seconds) as deadline:
                while data := await incoming.next_within(limit):
                    share.take(len(data))
                    check.update(data)
                    _write(body, data)
            if deadline.cancelled_caught:
                raise too_slow(self._options.body_timeout_seconds)
            handshake = prepared.handshake
            if handshake is not None and (reply := handshake.before(request, body)) is not None:
                return Taken(await self._give(inbox, reply))
            if body.on_disk:  # reading it back would stop the loop
                judgement = await trio.to_thread.run_sync(check.finish, body)
            else:
                judgement = check.finish(body)
            if handshake is not None:
                judgement = handshake.doubted(judgement, body)
                if (reply := handshake.after(request, body, judgement)) is not None:
                    return Taken(await self._give(inbox, reply))
            self.figures.judged(inbox.settings.verifier, judgement)
            if judgement.verified is False and prepared.rejects:
                raise _rejected(judgement)
            ticket = Ticket()
            appended = await self._store(prepared, request, path, judgement, body, ticket)
        return Taken(_answer(appended, prepared.response, ticket), appended, judgement)

    async def _find(self, slug: str) -> InboxRecord:
        inbox = await self._service.find(slug) if is_slug(slug) else None
        if inbox is None or inbox.kind != "webhook":
            raise ApiError("not_found", "There is no inbox at this address.")
        return inbox

    def _prepare(self, inbox: InboxRecord) -> Prepared:
        known = self._prepared.get(inbox.inbox_id)
        if known is not None and known.record is inbox:
            return known
        prepared = _prepared(inbox)
        if len(self._prepared) >= KNOWN_INBOXES and inbox.inbox_id not in self._prepared:
            del self._prepared[next(iter(self._prepared))]  # the one prepared longest ago
        self._prepared[inbox.inbox_id] = prepared
        return prepared

    def _without_body(self, prepared: Prepared, request: Request) -> Answer:
        answer = None if prepared.handshake is None else prepared.handshake.without_body(request)
        if answer is not None:
            return answer
        if request.method in ("GET", "HEAD"):
            return ALIVE
        raise ApiError("method_not_allowed", "Send messages with POST or PUT.", headers=ALLOW)

    async def _give(self, inbox: InboxRecord, reply: Answer | Adoption) -> Answer:
        """Return a handshake's answer, once the secret that it brought is durable or was found not to be wanted."""
        if isinstance(reply, Answer):
            return reply
        if not inbox.secrets:
            secret = Secret(ADOPTED_SECRET, reply.secret, self._clock())
            with suppress(Refusal):  # somebody else's was first
                await self._service.change_inbox(inbox.inbox_id, PutSecret(secret, _refuse_a_second))
        return reply.answer

    def _limit(self, inbox: InboxRecord) -> int:
        ours, own = self._options.max_body_bytes, inbox.settings.max_body_bytes
        return ours if own is None else min(ours, own)

    def signed_url(self, inbox: InboxRecord, request: Request) -> str:
        """Return the URL of a request as its provider knows it, for schemes that sign it. Where nobody has told that
        URL, none is returned, only a path (`web.signed_urls`).
        """
        if inbox.settings.signed_url is not None:
            return inbox.settings.signed_url
        target = request.raw_path + b"?" + request.raw_query if request.raw_query else request.raw_path
        return self._public_url + target.decode("latin-1")

    async def _store(
        self,
        prepared: Prepared,
        request: Request,
        path: bytes,
        judgement: Judgement,
        body: Spool,
        ticket: Ticket,
    ) -> Appended:
        inline = body.size <= INLINE_BODY_BYTES
        content = body.whole() if inline else b""
        verifier = prepared.verifier
        draft = Draft(
            id=new_id(),
            size=body.size,
            facts=facts(request.method, request.source_ip, body.size, judgement, verifier.name),
            said=said(
                redacted_path(path) if verifier.secret_path or prepared.held.in_path(path) else path,
                request.raw_query,
                request.headers,
                judgement,
                prepared.secret_headers,
                prepared.held,
            ),
            body_kind=body_kind(content) if inline else BodyKind.LARGE,
            body=content or None,
            body_id=None,
            event_type=judgement.event_type,
            verified=VERDICTS[judgement.verified],
            dedupe_key=_dedupe_key(judgement) if prepared.record.settings.dedupe_window_seconds else None,
        )
        return await append_draft(self._service, prepared.record, draft, body.open, ticket)


def _prepared(inbox: InboxRecord) -> Prepared:
    verifier = compile_verifier(inbox.settings, inbox.secrets)
    handshake = compile_handshake(inbox.settings, inbox.secrets)
    return Prepared(
        inbox,
        verifier,
        _own_response(inbox),
        handshake,
        rejects=inbox.settings.on_unverified == "reject" or verifier.always_reject,
        secret_headers=verifier.secret_headers
        if handshake is None
        else verifier.secret_headers | handshake.recipe.secret_headers,
        held=Held(secret.value for secret in inbox.secrets),
    )


def _refuse_a_second(inbox: InboxRecord) -> None:
    if inbox.secrets:
        raise Refusal("conflict", "The inbox has a secret already.")


def _write(body: Spool, data: bytes) -> None:
    try:
        body.write(data)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ApiError(
                "insufficient_storage", "The server has no room for this; nothing was stored."
            ) from error
        raise


def new_id() -> bytes:
    """Return a ULID: 48 bits of milliseconds, 80 random bits."""
    return (time.time_ns() // 1_000_000).to_bytes(6, "big") + os.urandom(10)


def _dedupe_key(judgement: Judgement) -> bytes | None:
    # Only what is verified is remembered: nobody unverified can burn a delivery id.
    if judgement.verified is not True or judgement.delivery_id is None:
        return None
    return blake2b(judgement.delivery_id.encode(), digest_size=DEDUPE_KEY_BYTES).digest()


def _rejected(judgement: Judgement) -> ApiError:
    challenge = unauthenticated(sent=False).headers
    return ApiError("unauthenticated", f"Not accepted: {judgement.error}.", headers=challenge)


def _own_response(inbox: InboxRecord) -> Answer | None:
    response = inbox.settings.response
    if response is None:
        return ALIVE if inbox.settings.verifier in BODILESS else None
    return Answer(
        response.status,
        response.body.encode(),
        response.content_type.encode("latin-1"),
        tuple(
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in response.headers.items()
        ),
    )


def _answer(appended: Appended, own: Answer | None, ticket: Ticket) -> Answer:
    headers = (DUPLICATE,) if appended.duplicate else ()
    if own is None:
        body = b'{"id":"%b","seq":%d}' % (ulid_text(appended.id).encode(), appended.seq)
        return Answer(200, body, headers=headers, sent=ticket.close)
    return msgspec.structs.replace(own, headers=(*own.headers, *headers), sent=ticket.close)
