"""Signing in with a token, and signing out."""

import re
from urllib.parse import quote, unquote

from web.attempts import keep_back
from web.auth import Authenticator
from web.errors import ApiError
from web.http import Answer, Request
from web.pages import forms, gate
from web.pages.rendering import Templates
from web.pages.sessions import Sessions
from web.pages.visit import Visit, redirect

SIGN_IN = "/ui/sign-in"
HOME = "/ui/inboxes"

NEXT_CHARACTERS = 512
"""Of the page that somebody wanted before signing in; none of ours has a longer address but for long filters."""

_OURS = re.compile(r"/ui(?:/[A-Za-z0-9][A-Za-z0-9._-]*)+(?:\?[\x21\x22\x24-\x5b\x5d-\x7e]*)?")
"""Where signing in may lead: a page of ours. All of them have such names in their paths, and browsers take such a path
as it stands: it has no dots alone, not even escaped ones, no empty name, and no backslash, which counts as a slash.
"""


def sign_in_path(request: Request) -> str:
    """Return the address of signing in, from where it goes on to the page that was asked for."""
    wanted = request.raw_path.decode("latin-1")
    if request.raw_query:
        wanted += "?" + request.raw_query.decode("latin-1")
    if wanted in ("/ui", "/ui/", HOME) or len(wanted) > NEXT_CHARACTERS or request.method != "GET":
        return SIGN_IN
    return f"{SIGN_IN}?next={quote(wanted, safe='/')}"


class Signing:
    """The handlers of signing in and out."""

    def __init__(self, sessions: Sessions, authenticator: Authenticator, templates: Templates) -> None:
        self._sessions = sessions
        self._authenticator = authenticator
        self._templates = templates

    async def show(self, request: Request) -> Answer:
        """`GET /ui/sign-in`: the form; who is signed in already signs in anew with it."""
        return self._form(request)

    async def sign_in(self, request: Request) -> Answer:
        """`POST /ui/sign-in`: 303 with the cookie, or the form again. A wrong token counts as everywhere."""
        form = forms.decode(await request.read_body())
        token = form.text("token")
        if not token or not token.isascii():
            return self._form(request, "Paste a token: it begins with prm_.", 400)
        try:
            caller = self._authenticator.authenticate(
                [(b"authorization", b"Bearer " + token.encode("ascii"))], request.source_ip
            )
        except ApiError as error:
            await keep_back(error)
            headers = tuple(header for header in error.answer().headers if header[0] == b"retry-after")
            return self._form(request, error.message, error.status, headers)
        before = gate.find(self._sessions, request)
        if before is not None:
            self._sessions.end(before[0])
        cookie = gate.set_cookie(self._sessions.begin(caller), secure=gate.is_over_tls(request))
        return redirect(_next(request), cookie)

    async def sign_out(self, visit: Visit) -> Answer:
        """`POST /ui/sign-out`: 303; what the session has open ends with it."""
        await visit.form()
        self._sessions.end(visit.session)
        return redirect(SIGN_IN, gate.drop_cookie())

    def _form(
        self,
        request: Request,
        message: str = "",
        status: int = 200,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> Answer:
        values = {
            "message": message,
            "next": _next(request),
            "me": None,
            "agent": None,
            "form_token": None,  # there is none without a session # nosec B105
            "path": SIGN_IN,
            "note": None,
        }
        return self._templates.answer("sign_in.html", values, status=status, headers=headers)


def _next(request: Request) -> str:
    """Return where to go after signing in: a page of ours, whatever the address says."""
    for pair in request.raw_query.split(b"&"):
        name, _, value = pair.partition(b"=")
        if name == b"next":
            wanted = unquote(value.decode("latin-1"))
            if (
                len(wanted) <= NEXT_CHARACTERS
                and _OURS.fullmatch(wanted)
                and not wanted.startswith("/ui/sign-")
            ):
                return wanted
    return HOME
