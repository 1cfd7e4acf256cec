"""Every vector verifies; the page of evidence says no more than there are vectors and libraries for."""

import pytest

from tests.web.verify.judging import URL, judge, raw
from tests.web.verify.vectors import DERIVED, OFFICIAL, VECTORS, Vector
from web.verify.model import Judgement
from web.verify.registry import Description, described
from web.verify.schemes import UNTESTED

TESTED_WITH_AN_SDK = {"stripe", "slack", "standard-webhooks", "twilio"}
"""By `test_sdks.py`."""


def verdict(vector: Vector, **changed: object) -> Judgement:
    """Judge a vector, or one that differs in something."""
    one = vector._replace(**changed)
    return judge(
        one.preset,
        one.options,
        [one.secret],
        raw(list(one.headers.items())),
        one.body,
        at_us=one.at * 1_000_000,
        url=one.url or URL,
        method=one.method,
    )


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_a_vector_verifies_and_shows_its_claims(vector: Vector) -> None:
    assert verdict(vector) == Judgement(True, None, vector.type, vector.id)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_a_vector_without_its_signature_is_missing_one(vector: Vector) -> None:
    without = {name: value for name, value in vector.headers.items() if name != vector.signed_in}
    assert verdict(vector, headers=without).error == "missing signature"


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_a_vector_is_accepted_until_its_tolerance_and_not_a_second_longer(vector: Vector) -> None:
    tolerance = 300 if vector.preset in ("slack", "stripe", "standard-webhooks") else None
    for sign in (-1, 1):
        late = verdict(vector, at=vector.at + sign * (tolerance or 10**9))
        assert late.verified is True
        if tolerance is not None:
            too_late = verdict(vector, at=vector.at + sign * (tolerance + 1))
            assert too_late.error == "timestamp outside tolerance"


@pytest.mark.parametrize("verifier", described(), ids=lambda verifier: verifier.name)
def test_a_verifier_claims_the_evidence_that_there_is(verifier: Description) -> None:
    sources = {vector.source for vector in VECTORS if vector.preset == verifier.name}
    evidence = [source for source in (OFFICIAL, DERIVED) if source in sources]
    evidence += ["SDK"] if verifier.name in TESTED_WITH_AN_SDK else []
    without = () if verifier.name == "none" else UNTESTED
    assert verifier.evidence == (tuple(evidence) or without)
    assert verifier.tested is bool(evidence)
