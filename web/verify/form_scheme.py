"""The schemes of Twilio and Mandrill (`web.verify.urlforms`)."""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

from storage.records import Secret
from web.errors import invalid
from web.verify.check import SchemeVerifier
from web.verify.forms import is_form
from web.verify.model import Verifier
from web.verify.samples import Base, fill
from web.verify.schemes import (
    About,
    Sample,
    Signed,
    ToSign,
    Wanted,
    claim_headers,
    refuse_others,
    values_of,
)
from web.verify.urlforms import BODY_HASH, FormMethod, FormTemplate, signed_fields


class FormScheme:
    """A form template. It has no options, and any secret is a key."""

    def __init__(self, about: About, template: FormTemplate, base: Base) -> None:
        self.about = about
        self._template = template
        self._base = base

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse all options."""
        refuse_others(self.about.name, options)

    def check_secret(self, options: Mapping[str, Any], value: bytes) -> None:
        """Refuse an empty secret."""
        if not value:
            raise invalid("value", "The secret is empty.")

    def signs_url(self, options: Mapping[str, Any]) -> bool:
        """Say yes: fields follow the URL."""
        return True

    def compile(self, options: Mapping[str, Any], secrets: tuple[Secret, ...]) -> Verifier:
        """Return the template with the secrets as keys."""
        self.check(options)
        keys = [value for value in values_of(secrets) if len(value)]
        return SchemeVerifier(self.about.name, FormMethod(self._template, keys), [self._template])

    def sign(self, options: Mapping[str, Any], secret: bytes, request: ToSign) -> Signed:
        """Sign a form by its fields, and where the scheme knows it another body by its hash in the query."""
        self.check(options)
        self.check_secret(options, secret)
        url, query, fields = request.url, "", b""
        if is_form(request.content_type.encode("latin-1", "replace")):
            found = signed_fields(request.body)
            if found is None:
                raise invalid("body", "The form has too many fields.")
            if request.body and not found:
                raise invalid("body", "The form has no text, so its signature would not cover it.")
            fields = found
        elif not self._template.hashed_body:
            raise invalid("content_type", f"The verifier {self.about.name} signs forms only.")
        elif request.body:
            query = f"{BODY_HASH}={hashlib.sha256(request.body).hexdigest()}"
            url = f"{url}{'&' if '?' in url else '?'}{query}"
        digest = hmac.digest(secret, url.encode("latin-1", "replace") + fields, "sha1")
        signature = base64.b64encode(digest).decode()
        return Signed(
            body=request.body,
            headers=(*claim_headers(self._template, request), (self._template.header.lower(), signature)),
            query=query,
        )

    def sample(self, options: Mapping[str, Any], wanted: Wanted) -> Sample:
        """Return a form."""
        self.check(options)
        return fill(self.about.name, self._base, self._template, wanted)
