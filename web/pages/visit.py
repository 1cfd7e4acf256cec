"""One request to the page by somebody who is signed in, as the page's handlers see it."""

from typing import Any

from actors.service import Service
from storage.mail_records import AgentRecord
from web.auth import Principal
from web.errors import ApiError
from web.faults import as_api_error
from web.http import Answer, Request
from web.pages import forms
from web.pages.asking import QUESTIONS, SURE
from web.pages.calls import Calls, Query
from web.pages.gate import FORM_TOKEN_FIELD, FORM_TOKEN_HEADER, check_form_token, is_renewal
from web.pages.rendering import SAFETY_HEADERS, Templates
from web.pages.sessions import Session

SEE_OTHER = 303


def redirect(path: str, *headers: tuple[bytes, bytes]) -> Answer:
    """Return an answer that sends a browser to another page, with GET."""
    return Answer(SEE_OTHER, headers=((b"location", path.encode("ascii")), *SAFETY_HEADERS, *headers))


class Visit:
    """A request with its session and caller."""

    def __init__(
        self,
        request: Request,
        session: Session,
        caller: Principal,
        calls: Calls,
        templates: Templates,
        service: Service,
    ) -> None:
        self.request = request
        self.session = session
        self.caller = caller
        self.service = service
        self._calls = calls
        self._templates = templates

    @property
    def params(self) -> dict[str, str]:
        """The path's parameters."""
        return self.request.params

    @property
    def path(self) -> str:
        """The path that was asked for."""
        return self.request.raw_path.decode("latin-1")

    @property
    def agent(self) -> AgentRecord | None:
        """The agent that the caller's token is bound to."""
        return None if self.caller.agent is None else self.service.mail.agents.get(self.caller.agent)

    def admins_only(self) -> None:
        """Refuse whoever has no admin token. Raises `ApiError` `permission_denied`."""
        if not self.caller.is_admin:
            raise ApiError("permission_denied", "This needs an admin token.")

    def can(self, method: str, path: str) -> bool:
        """Whether REST has such a route."""
        return self._calls.has(method, path)

    async def get(self, path: str, query: Query = ()) -> Any:
        """Return what `GET` of a path of REST answers. Raises as `Calls.call`."""
        return await self._calls.call(self.request, self.caller, "GET", path, query=query)

    async def call(self, method: str, path: str, body: object = None) -> Any:
        """Do something by REST and return its answer. Raises as `Calls.call`."""
        return await self._calls.call(self.request, self.caller, method, path, body=body)

    async def form(self) -> forms.Form:
        """Return the form that was sent. Raises `ApiError`: not a form, or not one of this session."""
        form = forms.decode(await self.request.read_body())
        check_form_token(self.session, form.text(FORM_TOKEN_FIELD))
        return form

    async def unsure(self, what: str, *names: object, back: str) -> Answer | None:
        """Read a form that has no fields of its own; return the page that asks whether it is meant, with a way `back`,
        None when the form says so. Raises as `form`.
        """
        if (await self.form()).checked(SURE):
            return None
        asked = QUESTIONS[what]
        return self.page("sure.html", words=asked.about(*names), button=asked.button, back=back)

    async def json(self) -> bytes:
        """Return the body that a script of the page has sent. Raises `ApiError`: not one of this session."""
        shown = self.request.header(FORM_TOKEN_HEADER) or b""
        check_form_token(self.session, shown.decode("latin-1"))
        return await self.request.read_body()

    def page(self, template: str, *, status: int = 200, **values: Any) -> Answer:
        """Return a page; `note` is what was left for it (`Session.leave`), and not for a tab that renews itself."""
        return self._templates.answer(
            template,
            {
                "me": self.caller,
                "agent": self.agent,
                "form_token": self.session.form_token,
                "path": self.path,
                "note": None if is_renewal(self.request) else self.session.take(self.path),
                "error": None,
                **values,
            },
            status=status,
        )

    def leave(self, path: str, note: object) -> Answer:
        """Go to another page, which shows a note once."""
        self.session.leave(path, note)
        return redirect(path)


def told(error: Exception) -> ApiError:
    """Return what a form says beside its fields of a failed call. Raises the error itself when it is a fault of ours,
    and one that is not about what was filled in: a page of its own says so.
    """
    said = as_api_error(error)
    if said is None or said.code in ("unauthenticated", "permission_denied", "internal"):
        raise error
    return said
