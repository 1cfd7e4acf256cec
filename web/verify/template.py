"""The generic template: most providers' signatures are values of it, and users configure it directly.

An HMAC over a text that is made of the body and of parts of the head; its digest, encoded, in one header. The
template is validated when it is made, so a `Template` that exists can be compiled. `PresetTemplate` adds what
some providers need and nobody has to configure.
"""

import base64
import binascii
import re
from typing import Literal

import msgspec

from web.verify.forms import parse_name
from web.verify.paths import Path, parse_path

MAX_TOLERANCE_SECONDS = 86_400
MAX_SOURCES = 6
"""A delivery id or an event type may be looked for in so many places, in order."""

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VISIBLE = re.compile(r"[\x20-\x7e]{0,100}")
_PAIR_KEY = re.compile(r"[A-Za-z0-9_-]{1,50}")
_SIGNED_PART = re.compile(r"\{(body|ts|id|url|method)\}")
_SEPARATORS = (",", ";", " ", "|", "&")

ED25519_BYTES = 64
DER_BYTES = 72
"""Two integers of 33 bytes, each with a tag and a length, in a sequence."""

_DIGEST_BYTES = {"sha1": 20, "sha256": 32, "sha512": 64}


class BadTemplate(ValueError):
    """A template that makes no sense; `field` is the option that is to blame."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


class Source(msgspec.Struct, frozen=True):
    """Where to find one value: `header` (name in lower case), `pair` of the signature header, a path of the
    JSON `body`, or a field of the `form` that the body is.
    """

    kind: Literal["header", "pair", "body", "form"]
    name: bytes = b""
    path: Path = ()


class Sources(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a delivery id and an event type are found: `header:NAME`, `body:PATH` or `form:NAME`, or several of
    them in order.
    """

    delivery_id: str | tuple[str, ...] = ()
    event_type: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.find("delivery_id")
        self.find("event_type")

    def find(self, field: Literal["delivery_id", "event_type"]) -> tuple[Source, ...]:
        """Return the parsed sources of one of the two. Raises `BadTemplate`."""
        spelled = getattr(self, field)
        texts = (spelled,) if isinstance(spelled, str) else spelled
        if len(texts) > MAX_SOURCES:
            raise BadTemplate(field, f"At most {MAX_SOURCES} places can be named")
        return tuple(parse_source(field, text, ("header", "body", "form")) for text in texts)


class Template(Sources, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One signature scheme. As `verifier_options` of an inbox with the verifier `hmac` it has these members.

    - `header`: the signature header. `prefix`: stands before each signature. `separator`: the header is a
      list. `pair`: the header is a list of `key=value` (separated by `,` unless `separator` says otherwise)
      and signatures are the values of this key. In a list, what has another prefix or key is ignored.
    - `algorithm`, `encoding`: of the digest. Signatures compare as exact text: lower-case hex, padded base64;
      only base64url may be padded or not.
    - `signed`: the text that is signed, with `{body}` exactly once, and `{ts}`, `{id}`, `{url}`, `{method}`.
    - `timestamp`: `header:NAME`, `pair:KEY` or `body:PATH`; `timestamp_unit`; `tolerance_seconds` into the
      past and into the future of the moment of receipt, 0 for no check.
    - `key`: how the secret becomes the HMAC's key, after `key_prefix` was taken off where it stands.
    - `delivery_id`, `event_type`: see `Sources`. `{id}` is the first place of `delivery_id`, a header: where an
      id is signed, it is the one by which a repetition is recognised, and no other header can be.
    """

    header: str
    algorithm: Literal["sha1", "sha256", "sha512"] = "sha256"
    encoding: Literal["hex", "base64", "base64url"] = "hex"
    prefix: str = ""
    separator: str | None = None
    pair: str | None = None
    signed: str = "{body}"
    timestamp: str | None = None
    timestamp_unit: Literal["seconds", "milliseconds"] = "seconds"
    tolerance_seconds: int = 300
    key: Literal["utf-8", "base64", "hex"] = "utf-8"
    key_prefix: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        header_name("header", self.header)
        for field, text in (("prefix", self.prefix), ("key_prefix", self.key_prefix)):
            if _VISIBLE.fullmatch(text) is None:
                raise BadTemplate(field, "Expected at most 100 visible ASCII characters")
        if self.separator is not None and self.separator not in _SEPARATORS:
            raise BadTemplate("separator", f"Expected one of {' '.join(map(repr, _SEPARATORS))}")
        if self.pair is not None and _PAIR_KEY.fullmatch(self.pair) is None:
            raise BadTemplate("pair", "Expected the key of a pair, such as v1")
        if not 0 <= self.tolerance_seconds <= MAX_TOLERANCE_SECONDS:
            raise BadTemplate("tolerance_seconds", f"Expected 0 (off) to {MAX_TOLERANCE_SECONDS} seconds")
        stamped = self.timestamp_source
        if stamped is not None and stamped.kind == "pair" and self.pair is None:
            raise BadTemplate("timestamp", "A pair needs a signature header of pairs: set pair as well")
        self._check_signed(stamped)

    def _check_signed(self, stamped: Source | None) -> None:
        parts = self.signed_parts
        names, literals = parts[1::2], parts[::2]
        if names.count("body") != 1:
            raise BadTemplate("signed", "The signed text needs {body} exactly once")
        if any("{" in text or "}" in text or _VISIBLE.fullmatch(text) is None for text in literals):
            raise BadTemplate("signed", "Expected visible ASCII and {body}, {ts}, {id}, {url}, {method}")
        if "ts" in names and (stamped is None or stamped.kind == "body"):
            raise BadTemplate("timestamp", "{ts} is signed: name the header or the pair that holds it")
        if "id" in names and self.id_header is None:
            raise BadTemplate("delivery_id", "{id} is signed: name the header that holds it first")

    @property
    def timestamp_source(self) -> Source | None:
        """Where the timestamp is, None when the scheme has none."""
        if self.timestamp is None:
            return None
        return parse_source("timestamp", self.timestamp, ("header", "pair", "body"))

    @property
    def id_header(self) -> bytes | None:
        """The header that `{id}` stands for, None when the delivery id is not (first) in a header."""
        sources = self.find("delivery_id")
        return sources[0].name if sources and sources[0].kind == "header" else None

    @property
    def signed_parts(self) -> list[str]:
        """The signed text in pieces: literal, name, literal, name, …, literal."""
        return _SIGNED_PART.split(self.signed)

    @property
    def list_separator(self) -> bytes | None:
        """What separates the items of the signature header; None when it holds one signature."""
        if self.separator is not None:
            return self.separator.encode()
        return b"," if self.pair is not None else None

    @property
    def signature_bytes(self) -> int:
        """The length of a signature before it is encoded."""
        return _DIGEST_BYTES[self.algorithm]

    def signature_pattern(self) -> re.Pattern[bytes]:
        """Return what one well-formed signature looks like, its text as group 1."""
        size = self.signature_bytes
        if self.encoding == "hex":
            return re.compile(rb"([0-9a-f]{%d})" % (2 * size))
        padding = -size % 3
        letters = (8 * size + 5) // 6
        if self.encoding == "base64":
            return re.compile(rb"([A-Za-z0-9+/]{%d}={%d})" % (letters, padding))
        return re.compile(rb"([A-Za-z0-9_-]{%d})(?:={%d})?" % (letters, padding))

    def encode(self, digest: bytes) -> bytes:
        """Return a digest as text, as group 1 of `signature_pattern` would hold it."""
        if self.encoding == "hex":
            return digest.hex().encode()
        if self.encoding == "base64":
            return base64.b64encode(digest)
        return base64.urlsafe_b64encode(digest).rstrip(b"=")

    def decode_key(self, secret: bytes) -> bytes:
        """Return the HMAC's key of a secret as it was configured. Raises `ValueError` with a sentence."""
        text = secret.removeprefix(self.key_prefix.encode())
        key: bytes | None = text
        if self.key == "base64":
            key = decode_exactly(text + b"=" * (-len(text) % 4), "base64")  # providers leave out the padding
        elif self.key == "hex":
            key = decode_exactly(text.lower() if text.isupper() else text, "hex")
        if key is None:
            raise ValueError(f"This verifier's secrets are {self.key} text, and this is not")
        if not key:
            raise ValueError("The secret is empty")
        return key


class PresetTemplate(Template, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A template with what only presets have.

    - `method`: `hmac`; `hash` (the secret and the signed text, hashed together); or a signature whose secret is
      the provider's public key: `ed25519`, or `ecdsa` on P-256 with SHA-256, its signature in DER.
    - `when`: a header (lower case) and the value without which this template does not apply.
    - `second_header`: may hold further signatures, of a key that is being replaced.
    - `decoded_in_url`: the provider may have signed the URL with these characters not percent-encoded.
    - `version`: of a provider that has several, each with its template; the inbox's options choose among them.
    - `key_prefix_required`: a secret without `key_prefix` belongs to another template.
    - `key_bytes`: the least and the greatest length of a key.
    """

    method: Literal["hmac", "hash", "ed25519", "ecdsa"] = "hmac"
    when: tuple[str, str] | None = None
    second_header: str | None = None
    decoded_in_url: str = ""
    version: str = ""
    key_prefix_required: bool = False
    key_bytes: tuple[int, int] = (1, 1_000_000)

    @property
    def public(self) -> bool:
        """Whether the inbox holds only a public key, which can verify and not sign."""
        return self.method in ("ed25519", "ecdsa")

    @property
    def signature_bytes(self) -> int:
        """The length of a signature before it is encoded; of a DER signature the greatest."""
        if self.method == "ed25519":
            return ED25519_BYTES
        return DER_BYTES if self.method == "ecdsa" else super().signature_bytes

    def signature_pattern(self) -> re.Pattern[bytes]:
        """Return what one well-formed signature looks like; a signature in DER varies in length."""
        if self.method != "ecdsa":
            return super().signature_pattern()
        letters = -(-4 * self.signature_bytes // 3)
        return re.compile(rb"([A-Za-z0-9+/]{8,%d}={0,2})" % letters)

    def decode_key(self, secret: bytes) -> bytes:
        """Return the key of a secret as it was configured. Raises `ValueError` with a sentence."""
        if self.key_prefix_required and not secret.startswith(self.key_prefix.encode()):
            raise ValueError(f"This verifier's secrets begin with {self.key_prefix}, and this one does not")
        # Everybody may see a public key, and pages print them in either case.
        key = super().decode_key(secret.lower() if self.public and self.key == "hex" else secret)
        least, most = self.key_bytes
        if not least <= len(key) <= most:
            expected = f"{least}" if least == most else f"{least} to {most}"
            raise ValueError(f"This verifier's keys have {expected} bytes, and this one has {len(key)}")
        return key


def decode_exactly(text: bytes, encoding: str) -> bytes | None:
    """Return the bytes that a text stands for, None when encoding them (in lower case, padded) gives another text."""
    try:
        decoded = binascii.unhexlify(text) if encoding == "hex" else base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    again = decoded.hex().encode() if encoding == "hex" else base64.b64encode(decoded)
    return decoded if again == text else None


def parse_source(field: str, text: str, kinds: tuple[str, ...]) -> Source:
    """Parse `header:NAME`, `pair:KEY`, `body:PATH` or `form:NAME`. Raises `BadTemplate` for `field`."""
    kind, _, name = text.partition(":")
    if kind not in kinds:
        raise BadTemplate(field, f"Expected {' or '.join(k + ':…' for k in kinds)}")
    if kind == "header":
        return Source("header", header_name(field, name))
    if kind == "pair":
        if _PAIR_KEY.fullmatch(name) is None:
            raise BadTemplate(field, "Expected the key of a pair, such as pair:t")
        return Source("pair", name.encode())
    try:
        if kind == "form":
            return Source("form", parse_name(name).encode())
        return Source("body", path=parse_path(name))
    except ValueError as error:
        raise BadTemplate(field, f"{str(error)[0].upper()}{str(error)[1:]}") from None


def header_name(field: str, name: str) -> bytes:
    """Return a header's name in lower case. Raises `BadTemplate` for `field`."""
    if _HEADER_NAME.fullmatch(name) is None:
        raise BadTemplate(field, "Expected the name of a header")
    return name.lower().encode()
