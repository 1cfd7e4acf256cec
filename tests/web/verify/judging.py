"""One request, judged without HTTP: what the tests of the verifiers share."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from storage.records import InboxSettings, Secret
from storage.secret import SecretBytes
from web.errors import ApiError
from web.verify.model import Judgement, SignedHead
from web.verify.registry import check_verifier, compile_verifier
from web.verify.signing import Signed, sign

NOW_US = 1_700_000_000_000_000
URL = "https://example.org/in/a"
BODY = b'{"id":"evt_1","type":"paid","event":{"type":"inner"}}'
SECRET = b"a secret of a webhook"
Headers = Sequence[tuple[bytes, bytes]]

SIGNATURE_FAULTS = {
    "missing signature",
    "malformed signature",
    "timestamp outside tolerance",
    "unknown key",
    "signature mismatch",
}
CREDENTIAL_FAULTS = {"missing credentials", "bad credentials"}


class Whole:
    """A body in memory that counts how often it is asked for."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.size = len(body)
        self.reads = 0

    def whole(self) -> bytes:
        self.reads += 1
        return self.body


def held(secrets: Sequence[bytes]) -> tuple[Secret, ...]:
    """Return secrets as an inbox holds them."""
    return tuple(Secret(f"s{n}", SecretBytes(value), 0) for n, value in enumerate(secrets))


def judge(
    verifier: str,
    options: Mapping[str, Any],
    secrets: Sequence[bytes],
    headers: Headers,
    body: bytes = BODY,
    *,
    at_us: int = NOW_US,
    pieces: int = 1,
    method: str = "POST",
    url: str = URL,
    path: bytes = b"",
    query: bytes = b"",
) -> Judgement:
    """Judge one request, its body fed in some pieces."""
    settings = InboxSettings(verifier=verifier, verifier_options=dict(options))
    head = SignedHead(method, url, headers, at_us, path, query)
    check = compile_verifier(settings, held(secrets)).begin(head)
    step = max(1, -(-len(body) // pieces))
    for start in range(0, len(body), step):
        check.update(body[start : start + step])
    return check.finish(Whole(body))


def raw(headers: Sequence[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """Return headers as they arrive."""
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]


def flipped(data: bytes, bit: int) -> bytes:
    """Return the data with one bit changed."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def signed(verifier: str, options: Mapping[str, Any], secret: bytes = SECRET, **more: Any) -> Signed:
    """Sign a body as a sender would."""
    return sign(verifier, options, secret, now_us=NOW_US, **{"body": BODY, **more})


def refused(verifier: str, options: Mapping[str, Any]) -> ApiError:
    """Return why options are refused."""
    with pytest.raises(ApiError) as found:
        check_verifier(verifier, options)
    return found.value
