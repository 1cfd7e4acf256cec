"""The verification of one request against a template, while its body arrives.

Everything that the head alone decides (a signature that is missing or malformed, a timestamp too far
away) is decided at `begin`, and then nothing is hashed. Else one HMAC for each active secret is fed
piece by piece, whatever the order of the signed text: its parts from the head are known before the
body, also those that follow it.
"""

import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any

from web.verify.digest import Digest
from web.verify.model import BodySource, Check, Judgement, SignedHead
from web.verify.paths import PathReader
from web.verify.template import Source, Sources, Template

MISSING = "missing signature"
MALFORMED = "malformed signature"
OUTSIDE_TOLERANCE = "timestamp outside tolerance"
UNKNOWN_KEY = "unknown key"
MISMATCH = "signature mismatch"
"""The fixed wordings, in the order in which they are tried; the first that applies is told."""

MAX_EVENT_TYPE_CHARS = 200
"""A longer event type counts as none: no filter could name it."""

MAX_DELIVERY_ID_CHARS = 1_024
"""A longer delivery id counts as none: providers' ids are some 40 characters."""

_TIMESTAMP = re.compile(rb"0|[1-9][0-9]{0,18}")
_UNIT_US = {"seconds": 1_000_000, "milliseconds": 1_000}
_SECOND_US = 1_000_000

Values = Mapping[bytes, Sequence[bytes]]


class Claims:
    """Finds the delivery id and the event type, in the head and where configured in the body."""

    def __init__(self, sources: Sources) -> None:
        self._delivery_id = sources.find("delivery_id")
        self._event_type = sources.find("event_type")
        both = (*self._delivery_id, *self._event_type)
        self.headers = frozenset(source.name for source in both if source.kind == "header")
        paths = tuple(dict.fromkeys(source.path for source in both if source.kind == "body"))
        self._reader = PathReader(paths) if paths else None

    def judgement(
        self, verified: bool | None, error: str | None, values: Values, body: BodySource
    ) -> Judgement:
        """Return the judgement with what the sender claims. The body is read only if a path asks for it."""
        found = {} if self._reader is None else self._reader.read(body.whole())
        event_type = _first(self._event_type, values, found)
        delivery_id = _first(self._delivery_id, values, found)
        return Judgement(
            verified=verified,
            error=error,
            event_type=event_type if len(event_type) <= MAX_EVENT_TYPE_CHARS else "",
            delivery_id=delivery_id if 0 < len(delivery_id) <= MAX_DELIVERY_ID_CHARS else None,
        )


def _first(sources: tuple[Source, ...], values: Values, found: Mapping[Any, str]) -> str:
    for source in sources:
        if source.kind == "header":
            text = values[source.name][0].decode("latin-1") if source.name in values else ""
        else:
            text = found.get(source.path, "")
        if text:
            return text
    return ""


class Unsigned:
    """The verifier `none`: nothing is checked, the verdict is null."""

    name = "none"
    secret_headers: frozenset[bytes] = frozenset()

    def __init__(self, sources: Sources) -> None:
        self._claims = Claims(sources)

    def begin(self, head: SignedHead) -> Check:
        """Start the check that is none."""
        return Settled(None, None, self._claims, _values(head, self._claims.headers))


class TemplateVerifier:
    """A template with the keys of an inbox's active secrets; without any, every signature has an
    unknown key.
    """

    secret_headers: frozenset[bytes] = frozenset()

    def __init__(self, name: str, template: Template, keys: Sequence[bytes]) -> None:
        self.name = name
        self._template = template
        self._claims = Claims(template)
        # Copying a keyed HMAC costs a third of keying one.
        self._keyed = [hmac.new(key, digestmod=template.algorithm) for key in keys]
        self._header = template.header.lower().encode()
        self._prefix = template.prefix.encode()
        self._pair = None if template.pair is None else template.pair.encode()
        self._separator = template.list_separator
        self._pattern = template.signature_pattern()
        self._stamped = template.timestamp_source
        parts = template.signed_parts
        self._id = template.id_header if "id" in parts[1::2] else None
        at = 2 * parts[1::2].index("body") + 1
        self._before, self._after = parts[:at], parts[at + 1 :]
        self._body_alone = parts == ["", "body", ""]
        self._lone = [self._header] if self._id is None else [self._header, self._id]
        self._stamp_reader: PathReader | None = None
        if self._stamped is not None and self._stamped.kind == "header":
            self._lone.append(self._stamped.name)
        elif self._stamped is not None and self._stamped.kind == "body":
            self._stamp_reader = PathReader((self._stamped.path,))
        self._wanted = self._claims.headers.union(self._lone)

    def begin(self, head: SignedHead) -> Check:
        """Judge the head, and start hashing if that leaves the verdict open."""
        values = _values(head, self._wanted)
        signatures, stamp, fault = self._read_head(values)
        if fault is None and stamp is not None and not self.in_time(stamp, head.received_at_us):
            fault = OUTSIDE_TOLERANCE
        if fault is None and not self._keyed and self._stamp_reader is None:
            fault = UNKNOWN_KEY
        if fault is not None:
            return Settled(False, fault, self._claims, values)
        macs = [keyed.copy() for keyed in self._keyed]
        after = b""
        if not self._body_alone:
            known = {
                "ts": stamp or b"",
                "id": values[self._id][0] if self._id is not None else b"",
                "url": head.url.encode("latin-1", "replace"),
                "method": head.method.encode("latin-1", "replace"),
            }
            before, after = _fill(self._before, known), _fill(self._after, known)
            for mac in macs:
                mac.update(before)
        return Hashing(self, macs, signatures, after, values, head.received_at_us)

    def _read_head(self, values: Values) -> tuple[list[bytes], bytes | None, str | None]:
        """Return the well-formed signatures, the timestamp's text and the fault, None if there is none."""
        for name in self._lone:
            if name not in values:
                return [], None, MISSING
        for name in self._lone:
            if len(values[name]) > 1:
                return [], None, MALFORMED
        signatures, pairs = self._candidates(values[self._header][0])
        if not signatures:
            return [], None, MALFORMED
        stamp: bytes | None = None
        if self._stamped is not None and self._stamped.kind != "body":
            name = self._stamped.name
            stamps = values[name] if self._stamped.kind == "header" else pairs.get(name, [])
            if len(stamps) != 1 or _TIMESTAMP.fullmatch(stamps[0]) is None:
                return [], None, MALFORMED
            stamp = stamps[0]
        return signatures, stamp, None

    def _candidates(self, value: bytes) -> tuple[list[bytes], dict[bytes, list[bytes]]]:
        items = [value] if self._separator is None else value.split(self._separator)
        pairs: dict[bytes, list[bytes]] = {}
        if self._pair is not None:
            for item in items:
                key, equals, text = item.partition(b"=")
                if equals:
                    pairs.setdefault(key, []).append(text)
            items = pairs.get(self._pair, [])
        signatures = []
        for item in items:
            if item.startswith(self._prefix):
                found = self._pattern.fullmatch(item, len(self._prefix))
                if found is not None:
                    signatures.append(found[1])
        return signatures, pairs

    def in_time(self, stamp: bytes, received_at_us: int) -> bool:
        """Whether a well-formed timestamp lies within the tolerance, in the past and in the future."""
        tolerance = self._template.tolerance_seconds
        if tolerance == 0:
            return True
        sent_us = int(stamp) * _UNIT_US[self._template.timestamp_unit]
        return abs(received_at_us - sent_us) <= tolerance * _SECOND_US

    def judge(
        self,
        macs: Sequence["hmac.HMAC"],
        signatures: Sequence[bytes],
        values: Values,
        received_at_us: int,
        body: BodySource,
    ) -> Judgement:
        """Return the judgement for finished HMACs. The body is parsed only after its signature was
        compared.
        """
        digests = [Digest(self._template.encode(mac.digest())) for mac in macs]
        matched = any(digest.matches(text) for digest in digests for text in signatures)
        fault = None if matched else MISMATCH if digests else UNKNOWN_KEY
        if self._stamp_reader is not None:
            found = self._stamp_reader.read(body.whole()).values()
            stamp = next(iter(found), "").encode()
            well_formed = _TIMESTAMP.fullmatch(stamp) is not None
            if not self.in_time(stamp, received_at_us) if well_formed else matched:
                fault = OUTSIDE_TOLERANCE
        return self._claims.judgement(fault is None, fault, values, body)


class Settled:
    """A check whose verdict did not need the body."""

    def __init__(self, verified: bool | None, error: str | None, claims: Claims, values: Values) -> None:
        self._verified = verified
        self._error = error
        self._claims = claims
        self._values = values

    def update(self, data: bytes) -> None:
        """Nothing depends on the body."""

    def finish(self, body: BodySource) -> Judgement:
        """Return the verdict."""
        return self._claims.judgement(self._verified, self._error, self._values, body)


class Hashing:
    """A check that depends on the body."""

    def __init__(
        self,
        verifier: TemplateVerifier,
        macs: Sequence["hmac.HMAC"],
        signatures: Sequence[bytes],
        after: bytes,
        values: Values,
        received_at_us: int,
    ) -> None:
        self._verifier = verifier
        self._macs = macs
        self._signatures = signatures
        self._after = after
        self._values = values
        self._received_at_us = received_at_us

    def update(self, data: bytes) -> None:
        """Hash the next piece under every active key."""
        for mac in self._macs:
            mac.update(data)

    def finish(self, body: BodySource) -> Judgement:
        """Hash what follows the body in the signed text, compare, and judge."""
        if self._after:
            self.update(self._after)
        return self._verifier.judge(self._macs, self._signatures, self._values, self._received_at_us, body)


def _values(head: SignedHead, wanted: frozenset[bytes]) -> dict[bytes, list[bytes]]:
    values: dict[bytes, list[bytes]] = {}
    for name, value in head.headers:
        if name in wanted:
            values.setdefault(name, []).append(value)
    return values


def _fill(parts: Sequence[str], known: Mapping[str, bytes]) -> bytes:
    """Join pieces of the signed text; literals and names alternate, a literal first."""
    return b"".join(known[part] if n % 2 else part.encode() for n, part in enumerate(parts))
