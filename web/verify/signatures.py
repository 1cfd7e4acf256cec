"""The trial of a request against templates, while its body arrives.

Everything that the head alone decides (a signature that is missing or malformed, a timestamp too far
away) is decided at `begin`, and then nothing is hashed. Else one run for each active key is fed piece by piece,
whatever the order of the signed text: its parts from the head are known before the body, also those that
follow it.
"""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from web.verify.keys import Key, Run, is_canonical
from web.verify.model import (
    MALFORMED,
    MISMATCH,
    MISSING,
    OUTSIDE_TOLERANCE,
    UNKNOWN_KEY,
    BodySource,
    Failed,
    Method,
    SignedHead,
    Trial,
    Values,
)
from web.verify.paths import PathReader
from web.verify.template import PresetTemplate

_TIMESTAMP = re.compile(rb"0|[1-9][0-9]{0,18}")
_UNIT_US = {"seconds": 1_000_000, "milliseconds": 1_000}
_SECOND_US = 1_000_000
_ORDER = (MISSING, MALFORMED, OUTSIDE_TOLERANCE, UNKNOWN_KEY, MISMATCH)


class TemplateMethod:
    """A template with the keys of an inbox's active secrets; without any, every signature has an
    unknown key. `which` is its place among alternatives.
    """

    def __init__(self, template: PresetTemplate, keys: Sequence[Key], which: int = 0) -> None:
        self.which = which
        self._template = template
        self._public = template.public
        self._keys = tuple(keys)
        self.header = template.header.lower().encode()
        self._prefix = template.prefix.encode()
        self._pair = None if template.pair is None else template.pair.encode()
        self._separator = template.list_separator
        self._pattern = template.signature_pattern()
        self._when = None if template.when is None else (template.when[0].encode(), template.when[1].encode())
        self._second = None if template.second_header is None else template.second_header.lower().encode()
        self._decoding = _decoding(template.decoded_in_url)
        self._stamped = template.timestamp_source
        parts = template.signed_parts
        self._id = template.id_header if "id" in parts[1::2] else None
        at = 2 * parts[1::2].index("body") + 1
        self._before, self._after = parts[:at], parts[at + 1 :]
        self._body_alone = parts == ["", "body", ""]
        self._lone = [self.header] if self._id is None else [self.header, self._id]
        self._stamp_reader: PathReader | None = None
        if self._stamped is not None and self._stamped.kind == "header":
            self._lone.append(self._stamped.name)
        elif self._stamped is not None and self._stamped.kind == "body":
            self._stamp_reader = PathReader((self._stamped.path,))
        others = (self._second, None if self._when is None else self._when[0])
        self.headers = frozenset(self._lone).union(name for name in others if name is not None)

    def applies(self, values: Values) -> bool:
        """Whether the request is of the version that this template is for."""
        if self._when is None:
            return True
        name, version = self._when
        return list(values.get(name, ())) == [version]

    def begin(self, head: SignedHead, values: Values) -> Trial:
        """Judge the head, and start hashing if that leaves the verdict open."""
        signatures, stamp, fault = self._read_head(values)
        if fault is None and stamp is not None and not self.in_time(stamp, head.received_at_us):
            fault = OUTSIDE_TOLERANCE
        if fault is None and not self._keys and self._stamp_reader is None:
            fault = UNKNOWN_KEY
        if fault is not None:
            return Failed(fault, self.which)
        if self._body_alone:
            runs = [(key.start(), b"", b"") for key in self._keys]
            return Hashing(self, runs, signatures, head.received_at_us)
        runs = []
        for url in self._urls(head.url):
            known = {
                "ts": stamp or b"",
                "id": values[self._id][0] if self._id is not None else b"",
                "url": url,
                "method": head.method.encode("latin-1", "replace"),
            }
            before, after = _fill(self._before, known), _fill(self._after, known)
            for key in self._keys:
                run = key.start()
                run.update(before)
                runs.append((run, before, after))
        return Hashing(self, runs, signatures, head.received_at_us)

    def _urls(self, url: str) -> Sequence[bytes]:
        given = url.encode("latin-1", "replace")
        if self._decoding is None:
            return (given,)
        decoded = self._decoding.sub(lambda escape: bytes.fromhex(escape[0][1:].decode()), given)
        return tuple(dict.fromkeys((given, decoded)))

    def _read_head(self, values: Values) -> tuple[list[bytes], bytes | None, str | None]:
        """Return the well-formed signatures, the timestamp's text and the fault, None if there is none."""
        for name in self._lone:
            if name not in values:
                return [], None, MISSING
        for name in self._lone:
            if len(values[name]) > 1:
                return [], None, MALFORMED
        if self._id is not None and not values[self._id][0]:
            return [], None, MALFORMED
        signatures, pairs = self._candidates(values[self.header][0])
        if self._second is not None and self._second in values:
            if len(values[self._second]) > 1:
                return [], None, MALFORMED
            signatures += self._candidates(values[self._second][0])[0]
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
                if found is not None and (not self._public or is_canonical(self._template, found[1])):
                    signatures.append(found[1])
        return signatures, pairs

    def in_time(self, stamp: bytes, received_at_us: int) -> bool:
        """Whether a well-formed timestamp lies within the tolerance, in the past and in the future."""
        tolerance = self._template.tolerance_seconds
        if tolerance == 0:
            return True
        sent_us = int(stamp) * _UNIT_US[self._template.timestamp_unit]
        return abs(received_at_us - sent_us) <= tolerance * _SECOND_US

    def outcome(self, matched: bool, received_at_us: int, body: BodySource) -> str | None:
        """Return the fault after signatures were compared. A timestamp in the body is told first, as one in the head,
        but the body is parsed only now.
        """
        if self._stamp_reader is not None:
            found = self._stamp_reader.read(body.whole()).values()
            stamp = next(iter(found), "").encode()
            if _TIMESTAMP.fullmatch(stamp) is None:
                return MALFORMED
            if not self.in_time(stamp, received_at_us):
                return OUTSIDE_TOLERANCE
        return None if matched else MISMATCH if self._keys else UNKNOWN_KEY


class Hashing:
    """A trial that depends on the body: runs, each with what stands before and after the body in its text."""

    __slots__ = ("_method", "_received_at_us", "_runs", "_signatures")

    def __init__(
        self,
        method: TemplateMethod,
        runs: Sequence[tuple[Run, bytes, bytes]],
        signatures: Sequence[bytes],
        received_at_us: int,
    ) -> None:
        self._method = method
        self._runs = runs
        self._signatures = signatures
        self._received_at_us = received_at_us

    @property
    def which(self) -> int:
        """The template's place among alternatives."""
        return self._method.which

    def update(self, data: bytes) -> None:
        """Feed the next piece to every run."""
        for run, _, _ in self._runs:
            run.update(data)

    def fault(self, body: BodySource) -> str | None:
        """Feed what follows the body, compare, and judge."""
        matched = any(self._matches(run, before, after, body) for run, before, after in self._runs)
        return self._method.outcome(matched, self._received_at_us, body)

    def _matches(self, run: Run, before: bytes, after: bytes, body: BodySource) -> bool:
        if after:
            run.update(after)
        return run.matches(self._signatures, lambda: before + body.whole() + after)


class Alternatives:
    """Several templates: those of the first header that is there are tried, and one that is satisfied suffices."""

    def __init__(self, methods: Sequence[TemplateMethod]) -> None:
        self._by_header: dict[bytes, list[TemplateMethod]] = {}
        for method in methods:
            self._by_header.setdefault(method.header, []).append(method)
        self.headers = frozenset[bytes]().union(*(method.headers for method in methods))

    def begin(self, head: SignedHead, values: Values) -> Trial:
        """Choose by the head."""
        for header, methods in self._by_header.items():
            if header in values:
                fitting = [method for method in methods if method.applies(values)]
                if len(fitting) == 1:
                    return fitting[0].begin(head, values)
                return Joint([method.begin(head, values) for method in fitting])
        return Failed(MISSING)


class Joint:
    """Trials of one request by several templates. Of their faults the one that got furthest is told."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._trials = trials
        self.which = 0

    def update(self, data: bytes) -> None:
        """Feed every trial."""
        for trial in self._trials:
            trial.update(data)

    def fault(self, body: BodySource) -> str | None:
        """Return None if one of the trials has no fault; of no trial at all the version is unheard of."""
        told: str | None = None
        for trial in self._trials:
            fault = trial.fault(body)
            if fault is None:
                self.which = trial.which
                return None
            if told is None or _ORDER.index(fault) > _ORDER.index(told):
                told, self.which = fault, trial.which
        return told or MALFORMED


def method_of(templates: Sequence[PresetTemplate], keys: Sequence[Sequence[Key]]) -> Method:
    """Return the method of one or several templates, each with its keys."""
    both = zip(templates, keys, strict=True)
    methods = [TemplateMethod(template, own, which) for which, (template, own) in enumerate(both)]
    return methods[0] if len(methods) == 1 else Alternatives(methods)


def _decoding(characters: str) -> re.Pattern[bytes] | None:
    if not characters:
        return None
    escapes = "|".join(re.escape(quote(character, safe="")) for character in characters)
    return re.compile(escapes.encode(), re.IGNORECASE)


def _fill(parts: Sequence[str], known: Mapping[str, bytes]) -> bytes:
    """Join pieces of the signed text; literals and names alternate, a literal first."""
    return b"".join(known[part] if n % 2 else part.encode() for n, part in enumerate(parts))
