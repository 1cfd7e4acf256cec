"""Twilio and Mandrill: an HMAC, by default with SHA-1, over the URL and the sorted fields of a form.

The fields are signed decoded, a name right before its value; of a name that is there several times each value counts
once, in order. Twilio signs a body that is no form by its SHA-256 in the URL, and is not of one mind whether a
port belongs to the URL: both are tried, as its own libraries do.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence

from storage.secret import SecretBytes
from web.verify.digest import Digest
from web.verify.forms import is_form, parse_form
from web.verify.model import (
    MALFORMED,
    MISMATCH,
    MISSING,
    UNKNOWN_KEY,
    BodySource,
    Failed,
    SignedHead,
    Trial,
    Values,
)
from web.verify.template import Sources

CONTENT_TYPE = b"content-type"
BODY_HASH = "bodySHA256"
"""The parameter of the query that holds the hash of a body that is no form."""

SHA1, SHA256 = "sha1", "sha256"
_ALGORITHMS = {b"HMAC_SHA1": SHA1, b"HMAC_SHA256": SHA256}
_SIGNATURES = {
    SHA1: re.compile(rb"[A-Za-z0-9+/]{27}="),
    SHA256: re.compile(rb"[A-Za-z0-9+/]{43}="),
}
_ORIGIN = re.compile(r"(https?)://([^/?#]*?)(:[0-9]*)?(?=[/?#]|\Z)")
_HASH = re.compile(r"[?&]" + BODY_HASH + r"=([^&#]*)")
_PORTS = {"http": ":80", "https": ":443"}


class FormTemplate(Sources, frozen=True, kw_only=True):
    """One such scheme. `hashed_body`: a body that is no form is signed by its hash in the URL.
    `ports`: the URL is tried with a port and without. `settings`: a header that may name another algorithm, as
    `algorithm=HMAC_SHA256`; the key is then the one that its other pair names.
    """

    header: str
    settings: str | None = None
    hashed_body: bool = False
    ports: bool = False


class FormMethod:
    """A scheme of this kind with the keys of an inbox's active secrets."""

    def __init__(self, template: FormTemplate, keys: Sequence[SecretBytes]) -> None:
        self._template = template
        self._header = template.header.lower().encode()
        self._keyed = {name: [hmac.new(key.reveal(), digestmod=name) for key in keys] for name in _SIGNATURES}
        self._settings = None if template.settings is None else template.settings.lower().encode()
        self.headers = frozenset({self._header, CONTENT_TYPE, self._settings or self._header})

    def begin(self, head: SignedHead, values: Values) -> Trial:
        """Judge the head; go on with the body if that leaves the verdict open."""
        shown = values.get(self._header, ())
        if not shown:
            return Failed(MISSING)
        algorithm = self._algorithm(values)
        if len(shown) > 1 or algorithm is None or _SIGNATURES[algorithm].fullmatch(shown[0]) is None:
            return Failed(MALFORMED)
        if not self._keyed[algorithm]:
            return Failed(UNKNOWN_KEY)
        url = head.url
        if self._template.hashed_body:
            url = with_body_hash(url, head.query)
        stated = _HASH.search(url) if self._template.hashed_body else None
        return _FormTrial(
            self._keyed[algorithm],
            url_forms(url) if self._template.ports else (url,),
            shown[0],
            form=all(is_form(kind) for kind in values.get(CONTENT_TYPE, ())),
            stated=None if stated is None else stated[1].encode("latin-1", "replace"),
        )

    def _algorithm(self, values: Values) -> str | None:
        """Return the algorithm that the settings name, None for one that is unheard of."""
        if self._settings is None or self._settings not in values:
            return SHA1
        if len(values[self._settings]) > 1:
            return None
        for part in values[self._settings][0].split(b","):
            name, _, value = part.partition(b"=")
            if name.strip() == b"algorithm" and value.strip():
                return _ALGORITHMS.get(value.strip().upper())
        return SHA1


class _FormTrial:
    """`form`: the body is one, or nobody says what it is. `stated` is the hash in the URL."""

    which = 0

    def __init__(
        self,
        keyed: Sequence["hmac.HMAC"],
        urls: Sequence[str],
        signature: bytes,
        *,
        form: bool,
        stated: bytes | None,
    ) -> None:
        self._keyed = keyed
        self._urls = urls
        self._signature = signature
        self._form = form
        self._stated = stated
        self._hash = hashlib.sha256()

    def update(self, data: bytes) -> None:
        """Hash the next piece. Fields are needed sorted, so a form is read whole."""
        if self._stated is not None:
            self._hash.update(data)

    def fault(self, body: BodySource) -> str | None:
        """Return the fault. A signature of the URL alone says nothing of a body, so there may be none."""
        if self._stated is None:
            covered = body.size == 0
        else:
            covered = Digest(self._hash.hexdigest().encode()).matches(self._stated)
        if covered and self._matches(b""):
            return None
        fields = signed_fields(body.whole()) if self._form else None
        # Fields without a text add nothing to the URL: its signature alone would cover `&`, `=` and the like.
        return None if fields and self._matches(fields) else MISMATCH

    def _matches(self, fields: bytes) -> bool:
        texts = [url.encode("latin-1", "replace") + fields for url in self._urls]
        return any(self._is_right(mac, text) for mac in self._keyed for text in texts)

    def _is_right(self, keyed: "hmac.HMAC", text: bytes) -> bool:
        run = keyed.copy()
        run.update(text)
        return Digest(base64.b64encode(run.digest())).matches(self._signature)


def signed_fields(body: bytes) -> bytes | None:
    """Return the part of the signed text that is the form, None for a form with too many fields."""
    fields = parse_form(body)
    if fields is None:
        return None
    return b"".join(name + value for name, value in sorted(set(fields)))


def with_body_hash(url: str, query: bytes) -> str:
    """Return a URL with the body's hash that the sender has added to its query, if it is not there already."""
    if _HASH.search(url) is not None:
        return url
    found = _HASH.search("?" + query.decode("latin-1"))
    if found is None:
        return url
    return f"{url}{'&' if '?' in url else '?'}{BODY_HASH}={found[1]}"


def url_forms(url: str) -> tuple[str, ...]:
    """Return a URL as it is, without its port, and with the port of its scheme where it has none."""
    origin = _ORIGIN.match(url)
    if origin is None:
        return (url,)
    scheme, host, port = origin.groups()
    rest = url[origin.end() :]
    forms = (url, f"{scheme}://{host}{rest}", f"{scheme}://{host}{port or _PORTS[scheme]}{rest}")
    return tuple(dict.fromkeys(forms))
