"""Ingest: a webhook comes in, is verified on its raw bytes, and is durable before it is answered (surface,
section 4).

The order is the contract's: inbox and method, rate, framing, size while reading with bytes in flight and
deadline, verification, policy, and only then the store. A refused sender causes no write: a large body waits
in a spool and is staged after the verdict. The verifier is fed each piece as it arrives, so a signature costs
no second pass.
"""

import errno
import os
import time
from hashlib import blake2b
from pathlib import Path

import msgspec
import trio

from actors.commands import Appended, Draft
from actors.fanout import Ticket
from actors.service import Service
from storage.records import INLINE_BODY_BYTES, BodyKind, InboxRecord, Verdict
from web.claims import body_kind, facts, said
from web.errors import ApiError, unauthenticated
from web.grammar import is_slug, ulid_text
from web.http import Answer, Request
from web.limits import BodiesInFlight, Incoming, framed_twice, too_slow
from web.options import WebOptions
from web.rates import IngestRates
from web.spool import Spool
from web.verify.model import Judgement, SignedHead, Verifier
from web.verify.registry import compile_verifier

PREFIX = b"/in/"
ALLOW = ((b"allow", b"POST, PUT, GET, HEAD"),)
ALIVE = Answer(200)
DUPLICATE = (b"postroom-duplicate", b"true")
DEDUPE_KEY_BYTES = 16
"""A hash instead of the id itself bounds what a sender can make us remember (study, section 3)."""
KNOWN_INBOXES = 4_096
"""Inboxes whose verifier is kept compiled, each a few KiB; compiling one again takes about 20 µs."""
VERDICTS = {True: Verdict.VERIFIED, False: Verdict.FAILED, None: Verdict.NONE}


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """What is derived from an inbox's record once, for as long as the record is in force."""

    record: InboxRecord
    verifier: Verifier
    response: Answer | None


class Ingest:
    """Answers everything below `/in/`."""

    def __init__(self, service: Service, options: WebOptions, spool_dir: Path) -> None:
        """`spool_dir` is where large bodies wait for their verdict, in files without a name."""
        self._service = service
        self._options = options
        self._spool_dir = spool_dir
        self._public_url = (options.public_url or "").rstrip("/")
        self._rates = IngestRates()
        self.in_flight = BodiesInFlight(options.bodies_in_flight_bytes)
        self._prepared: dict[int, Prepared] = {}

    async def __call__(self, request: Request, incoming: Incoming) -> Answer:
        """Answer one request. Raises `ApiError`, `ClientGone`, and what `Service.append` raises."""
        slug, slash, rest = request.raw_path[len(PREFIX) :].partition(b"/")
        inbox = await self._find(slug.decode("latin-1"))
        if request.method not in ("POST", "PUT"):
            if request.method in ("GET", "HEAD"):
                return ALIVE
            raise ApiError("method_not_allowed", "Send messages with POST or PUT.", headers=ALLOW)
        received_at_us = time.time_ns() // 1_000
        if inbox.settings.rate_per_minute is not None:
            wait = self._rates.take(inbox.inbox_id, inbox.settings.rate_per_minute)
            if wait is not None:
                message = f"The limit of this inbox is {inbox.settings.rate_per_minute} per minute."
                raise ApiError("rate_limited", message, retry_after=wait)
        if incoming.framed_twice:
            raise framed_twice()
        prepared = self._prepare(inbox)
        check = prepared.verifier.begin(
            SignedHead(request.method, self._signed_url(inbox, request), request.headers, received_at_us)
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
            if body.on_disk:  # reading it back would stop the loop
                judgement = await trio.to_thread.run_sync(check.finish, body)
            else:
                judgement = check.finish(body)
            if judgement.verified is False and inbox.settings.on_unverified == "reject":
                raise _rejected(judgement)
            ticket = Ticket()
            appended = await self._store(prepared, request, slash + rest, judgement, body, ticket)
        return _answer(appended, prepared.response, ticket)

    async def _find(self, slug: str) -> InboxRecord:
        inbox = await self._service.find(slug) if is_slug(slug) else None
        if inbox is None or inbox.kind != "webhook":
            raise ApiError("not_found", "There is no inbox at this address.")
        return inbox

    def _prepare(self, inbox: InboxRecord) -> Prepared:
        known = self._prepared.get(inbox.inbox_id)
        if known is not None and known.record is inbox:
            return known
        prepared = Prepared(inbox, compile_verifier(inbox.settings, inbox.secrets), _own_response(inbox))
        if len(self._prepared) >= KNOWN_INBOXES and inbox.inbox_id not in self._prepared:
            del self._prepared[next(iter(self._prepared))]  # the one prepared longest ago
        self._prepared[inbox.inbox_id] = prepared
        return prepared

    def _limit(self, inbox: InboxRecord) -> int:
        ours, own = self._options.max_body_bytes, inbox.settings.max_body_bytes
        return ours if own is None else min(ours, own)

    def _signed_url(self, inbox: InboxRecord, request: Request) -> str:
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
            id=_new_id(),
            size=body.size,
            facts=facts(request.method, request.source_ip, body.size, judgement, verifier.name),
            said=said(path, request.raw_query, request.headers, judgement, verifier.secret_headers),
            body_kind=body_kind(content) if inline else BodyKind.LARGE,
            body=content or None,
            body_id=None,
            event_type=judgement.event_type,
            verified=VERDICTS[judgement.verified],
            dedupe_key=_dedupe_key(judgement),
        )
        if inline:
            return await self._service.append(prepared.record, draft, ticket)
        body_id = await self._service.stage_body(body.open())
        adopted = False
        try:
            draft = msgspec.structs.replace(draft, body_id=body_id)
            appended = await self._service.append(prepared.record, draft, ticket)
            adopted = not appended.duplicate
            return appended
        finally:
            # Also when the outcome is unknown: a body that a message has adopted is not touched.
            if not adopted:
                await self._service.discard_body(body_id)


def _write(body: Spool, data: bytes) -> None:
    try:
        body.write(data)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ApiError(
                "insufficient_storage", "The server has no room for this; nothing was stored."
            ) from error
        raise


def _new_id() -> bytes:
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
        return None
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
