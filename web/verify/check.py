"""A verifier in use: the check of one request, made of a method's trial and of what the sender claims.

The head's values that anything looks at are collected once. The claims are read after the trial, so nothing of a
body is parsed before its signature was compared.
"""

from collections.abc import Sequence

from web.verify.model import BodySource, Check, Judgement, Method, SignedHead, Trial, Values
from web.verify.sources import Claims, claims_of
from web.verify.template import Sources


class SchemeVerifier:
    """A method with the secrets of one inbox, under the name that its owner typed."""

    def __init__(
        self,
        name: str,
        method: Method,
        sources: Sequence[Sources],
        *,
        secret_headers: frozenset[bytes] = frozenset(),
        secret_path: bool = False,
        always_reject: bool = False,
    ) -> None:
        """Take the `sources` of each alternative of the method, in their order."""
        self.name = name
        self.secret_headers = secret_headers
        self.secret_path = secret_path
        self.always_reject = always_reject
        self._method = method
        self._claims = tuple(claims_of(own) for own in sources)
        self._wanted = method.headers.union(*(claims.headers for claims in self._claims))

    def begin(self, head: SignedHead) -> Check:
        """Judge the head, and go on with the body if that leaves the verdict open."""
        values = values_of(head, self._wanted)
        return Checking(self._method.begin(head, values), self._claims, values)


class Unsigned:
    """The verifier `none`: nothing is checked, the verdict is null."""

    name = "none"
    secret_headers: frozenset[bytes] = frozenset()
    secret_path = False
    always_reject = False

    def __init__(self, sources: Sources) -> None:
        self._claims = claims_of(sources)

    def begin(self, head: SignedHead) -> Check:
        """Start the check that is none."""
        return Unchecked(self._claims, values_of(head, self._claims.headers))


class Checking:
    """One request's check."""

    __slots__ = ("_claims", "_trial", "_values", "update")

    def __init__(self, trial: Trial, claims: Sequence[Claims], values: Values) -> None:
        self.update = trial.update
        self._trial = trial
        self._claims = claims
        self._values = values

    def finish(self, body: BodySource) -> Judgement:
        """Judge, and only then read the claims, where the alternative has them that was judged by."""
        fault = self._trial.fault(body)
        return self._claims[self._trial.which].judgement(fault is None, fault, self._values, body)


class Unchecked:
    """A check that finds nothing but claims."""

    def __init__(self, claims: Claims, values: Values) -> None:
        self._claims = claims
        self._values = values

    def update(self, data: bytes) -> None:
        """Nothing depends on the body's bytes."""

    def finish(self, body: BodySource) -> Judgement:
        """Return the verdict that is none."""
        return self._claims.judgement(None, None, self._values, body)


def values_of(head: SignedHead, wanted: frozenset[bytes]) -> dict[bytes, list[bytes]]:
    """Return the values of the wanted headers that are there, in their order."""
    values: dict[bytes, list[bytes]] = {}
    for name, value in head.headers:
        if name in wanted:
            values.setdefault(name, []).append(value)
    return values
