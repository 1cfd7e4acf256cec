"""Methods whose sender shows a secret instead of signing: in a header, as a segment of the path, in the body.

There are two faults only: nothing was shown, or something else than an active secret. A credential that is there
twice is a bad one, because two readers could take different ones.
"""

import base64
import re
from collections.abc import Sequence
from urllib.parse import unquote_to_bytes

import msgspec

from storage.secret import SecretBytes
from web.verify.digest import Digest
from web.verify.model import (
    BAD_CREDENTIALS,
    MISSING_CREDENTIALS,
    BodySource,
    Failed,
    SignedHead,
    Trial,
    Values,
)
from web.verify.signatures import TemplateMethod

AUTHORIZATION = b"authorization"

_BASIC = re.compile(rb"(?i:basic) +([A-Za-z0-9+/]*={0,2})")


class HeaderMethod:
    """The value of one header is a secret."""

    def __init__(self, header: bytes, secrets: Sequence[SecretBytes], which: int = 0) -> None:
        """`which` is its place among alternatives."""
        self._header = header
        self._which = which
        self._secrets = tuple(secrets)
        self.headers = frozenset({header})

    def begin(self, head: SignedHead, values: Values) -> Trial:
        """Compare."""
        if self._header not in values:
            return Failed(MISSING_CREDENTIALS, self._which)
        return Failed(_fault(self._secrets, values[self._header]), self._which)


class BasicMethod:
    """HTTP basic credentials; a secret is `user:password`."""

    headers = frozenset({AUTHORIZATION})

    def __init__(self, secrets: Sequence[SecretBytes]) -> None:
        self._expected = tuple(Digest(base64.b64encode(secret.reveal())) for secret in secrets)

    def begin(self, head: SignedHead, values: Values) -> Trial:
        """Compare as the exact text of the base64."""
        shown = values.get(AUTHORIZATION, ())
        if not shown:
            return Failed(MISSING_CREDENTIALS)
        found = _BASIC.fullmatch(shown[0]) if len(shown) == 1 else None
        good = found is not None and any(expected.matches(found[1]) for expected in self._expected)
        return Failed(None if good else BAD_CREDENTIALS)


class PathMethod:
    """The first segment after the inbox's slug is a secret, as it is or percent-encoded."""

    headers: frozenset[bytes] = frozenset()

    def __init__(self, secrets: Sequence[SecretBytes]) -> None:
        self._secrets = tuple(secrets)

    def begin(self, head: SignedHead, values: Values) -> Trial:
        """Compare."""
        segment = head.path.removeprefix(b"/").partition(b"/")[0]
        if not segment:
            return Failed(MISSING_CREDENTIALS)
        fault = _fault(self._secrets, [segment])
        return Failed(fault if fault is None else _fault(self._secrets, [unquote_to_bytes(segment)]))


class GraphMethod:
    """Microsoft Graph: every notification of the body says the `clientState` that its subscription was made with."""

    headers: frozenset[bytes] = frozenset()

    def __init__(self, secrets: Sequence[SecretBytes]) -> None:
        self._secrets = tuple(secrets)

    def begin(self, head: SignedHead, values: Values) -> Trial:
        """Start; the head says nothing."""
        return _GraphTrial(self._secrets)


class _Notification(msgspec.Struct, rename="camel"):
    client_state: str | None = None


class _Notifications(msgspec.Struct):
    value: list[_Notification] = []


_NOTIFICATIONS = msgspec.json.Decoder(_Notifications)


class _GraphTrial:
    which = 0

    def __init__(self, secrets: Sequence[SecretBytes]) -> None:
        self._secrets = secrets

    def update(self, data: bytes) -> None:
        """Do nothing: the body is read whole."""

    def fault(self, body: BodySource) -> str | None:
        """Return the fault: every notification must show an active secret."""
        try:
            notifications = _NOTIFICATIONS.decode(body.whole()).value
        except (msgspec.DecodeError, RecursionError):
            return MISSING_CREDENTIALS
        shown = [one.client_state for one in notifications]
        if all(state is None for state in shown):
            return MISSING_CREDENTIALS
        faults = [_fault(self._secrets, [(state or "").encode()]) for state in shown]
        return BAD_CREDENTIALS if any(faults) else None


class TokenOrSignedMethod:
    """A signature, where the inbox has a key for it and the request is signed, else a token."""

    def __init__(self, signed: TemplateMethod | None, shown: HeaderMethod) -> None:
        """`signed` is None when no secret of the inbox is a key of the signature."""
        self._signed = signed
        self._shown = shown
        self.headers = shown.headers | (frozenset() if signed is None else signed.headers)

    def begin(self, head: SignedHead, values: Values) -> Trial:
        """Judge a signature that is there alone: a right token beside it must not undo its timestamp."""
        if self._signed is not None and self._signed.header in values:
            return self._signed.begin(head, values)
        return self._shown.begin(head, values)


def _fault(secrets: Sequence[SecretBytes], shown: Sequence[bytes]) -> str | None:
    if len(shown) != 1 or not any(secret.matches(shown[0]) for secret in secrets):
        return BAD_CREDENTIALS
    return None
