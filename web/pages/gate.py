"""Who comes in: the cookie, and what a request that changes something must show so that no other site can send it.

Three locks against forged requests, each of which is enough: the cookie is `SameSite=Strict`; a request other than GET
or HEAD must come from a page of this very origin, as its browser says (`Sec-Fetch-Site`, `Origin`); and it carries the
token that its session's forms have. Before there is a session (signing in) the browser must have said where it comes
from.
"""

import hmac
from collections.abc import Sequence

from web.auth import Principal
from web.errors import ApiError
from web.hosts import DEFAULT_PORTS, origin_of
from web.http import RawHeaders, Request
from web.pages.sessions import Session, Sessions

COOKIE = "postroom_session"
SCOPE = "/ui"
"""The cookie's path: it is sent to the page alone, never to the API."""

MAX_COOKIE_BYTES = 256
"""Of a value that is looked at; ours has 43."""

SAFE_METHODS = ("GET", "HEAD")
FORM_TOKEN_HEADER = b"postroom-form"
"""How a script of the page shows the token; a form has it as a field."""

FORM_TOKEN_FIELD = "form_token"  # noqa: S105 - the name of a field # nosec B105

RENEWAL_HEADER = b"postroom-renewal"
"""How a script of the page says that it asks by itself, with nobody at the keys: no sign that the session is used."""

FOREIGN = "This request does not come from a page of this server. Open the page again, and try once more."
STALE_FORM = "This form is from another session. Open the page again, and try once more."


def cookies(headers: RawHeaders) -> Sequence[str]:
    """Return every value of our cookie in a request, the most specific path first, as browsers send them."""
    found = []
    for name, value in headers:
        if name != b"cookie":
            continue
        for part in value.split(b";"):
            key, equals, text = part.strip().partition(b"=")
            if equals and key == COOKIE.encode() and len(text) <= MAX_COOKIE_BYTES and text.isascii():
                found.append(text.decode("ascii"))
    return found


def find(sessions: Sessions, request: Request) -> tuple[Session, Principal] | None:
    """Return the session that a request belongs to, and its caller as of this moment."""
    used = not is_renewal(request)
    for text in cookies(request.headers):
        found = sessions.find(text, used=used)
        if found is not None:
            return found
    return None


def is_renewal(request: Request) -> bool:
    """Whether a page that is open renews itself: also by an event stream, which a browser opens again and again, and
    which cannot carry a header of ours.
    """
    return request.header(RENEWAL_HEADER) is not None or request.header(b"accept") == b"text/event-stream"


def set_cookie(text: str, *, secure: bool) -> tuple[bytes, bytes]:
    """Return the header that gives a browser its session, for as long as the browser runs: when it ends is decided
    here.
    """
    kept = f"{COOKIE}={text}; Path={SCOPE}; HttpOnly; SameSite=Strict" + ("; Secure" if secure else "")
    return b"set-cookie", kept.encode()


def drop_cookie() -> tuple[bytes, bytes]:
    """Return the header that takes it away again."""
    return b"set-cookie", f"{COOKIE}=; Path={SCOPE}; HttpOnly; SameSite=Strict; Max-Age=0".encode()


def is_over_tls(request: Request) -> bool:
    """Whether a browser has asked over HTTPS, whatever stands between: it says so itself in `Origin`."""
    return (request.header(b"origin") or b"").startswith(b"https://")


def check_source(request: Request, *, must_say: bool) -> None:
    """Refuse a request that changes something and comes from elsewhere. `must_say`: also one that does not say.

    Raises `ApiError` `permission_denied`.
    """
    if request.method in SAFE_METHODS:
        return
    site, origin = request.header(b"sec-fetch-site"), request.header(b"origin")
    if site is not None and site != b"same-origin":
        raise ApiError("permission_denied", FOREIGN)
    if origin is not None and not _is_ours(origin, request.header(b"host") or b""):
        raise ApiError("permission_denied", FOREIGN)
    if must_say and site is None and origin is None:
        raise ApiError("permission_denied", FOREIGN)


def check_form_token(session: Session, shown: str) -> None:
    """Refuse what does not carry the session's token. Raises `ApiError` `permission_denied`."""
    if not hmac.compare_digest(shown.encode(), session.form_token.encode()):
        raise ApiError("permission_denied", STALE_FORM)


def _is_ours(origin: bytes, host: bytes) -> bool:
    """Whether an origin is that of the host that was asked. Any scheme will do: a proxy may speak TLS for us."""
    said = origin_of(origin.decode("latin-1"))
    if said is None:
        return False
    scheme = said.partition("://")[0]
    return scheme in DEFAULT_PORTS and said == origin_of(f"{scheme}://{host.decode('latin-1')}")
