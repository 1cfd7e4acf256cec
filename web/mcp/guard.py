"""What is refused before the protocol begins: the method, foreign browsers, media types (in this order).

These refusals have the shape of every REST error. A browser says with `Origin` which page sends a request; a page that
an attacker controls must not reach an inbox with the user's network position, nor by pointing its own name at the
loopback (DNS rebinding), which `Host` tells.
"""

from collections.abc import Iterable

from web.errors import ApiError
from web.hosts import host_of, is_loopback, origin_of
from web.http import RawHeaders, Request
from web.options import WebOptions

JSON = "application/json"
_INCLUDING_JSON = (JSON, "application/*", "*/*")
"""Media ranges that JSON falls into, the most specific first."""


class Guard:
    """The checks of one endpoint; options are read at each request, because a reload changes them."""

    def __init__(self, options: WebOptions) -> None:
        self._options = options

    def check(self, request: Request) -> None:
        """Raise `ApiError` for the first check that fails."""
        if request.method != "POST":
            message = (
                "This endpoint takes POST only: every call is answered at once, there is no stream to open."
            )
            raise ApiError("method_not_allowed", message, headers=((b"allow", b"POST"),))
        headers = request.headers
        self._check_origin(headers)
        self._check_host(headers)
        _check_content_type(headers)
        _check_accept(headers)

    def _check_origin(self, headers: RawHeaders) -> None:
        for text in _values(headers, b"origin"):
            if not self._allows(text):
                raise ApiError("permission_denied", "Requests from this origin are not allowed.")

    def _allows(self, text: str) -> bool:
        origin = origin_of(text)
        if origin is None:
            return False
        options = self._options
        if options.public_url is not None and origin == origin_of(options.public_url):
            return True
        if origin in map(origin_of, options.allowed_origins):
            return True
        _, _, authority = origin.partition("://")
        return options.is_loopback and is_loopback(host_of(authority) or "")

    def _check_host(self, headers: RawHeaders) -> None:
        if not self._options.is_loopback:
            return
        for text in _values(headers, b"host"):
            host = host_of(text)
            if host is None or not (is_loopback(host) or host in self._own_hosts()):
                raise ApiError("permission_denied", "Requests for this host are not served here.")

    def _own_hosts(self) -> Iterable[str]:
        options = self._options
        if options.public_url is not None:
            _, _, authority = (origin_of(options.public_url) or "").partition("://")
            yield host_of(authority) or ""
        yield from (host.lower() for host in options.allowed_hosts)


def _check_content_type(headers: RawHeaders) -> None:
    given = _values(headers, b"content-type")
    if len(given) != 1 or given[0].partition(";")[0].strip().lower() != JSON:
        raise ApiError("unsupported_media_type", "Send the request as Content-Type: application/json.")


def _check_accept(headers: RawHeaders) -> None:
    given = _values(headers, b"accept")
    if not given:
        return
    ranges = dict(_media_range(part) for part in ",".join(given).split(",") if part.strip())
    if not ranges:
        return
    for wanted in _INCLUDING_JSON:
        if wanted in ranges:
            if ranges[wanted]:
                return
            break
    raise ApiError("not_acceptable", "The answer is application/json, which Accept excludes.")


def _media_range(text: str) -> tuple[str, bool]:
    """Return a media range without its parameters, and whether its quality is more than nothing."""
    name, *parameters = (part.strip().lower() for part in text.split(";"))
    quality = next((value[2:] for value in parameters if value.startswith("q=")), "1")
    return name, quality.strip("0.") != ""


def _values(headers: RawHeaders, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in headers if name == wanted]
