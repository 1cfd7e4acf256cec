"""What `docs/agents.md` says of waking: its calls are what is sent, and its program takes them and no others."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
import standardwebhooks

from actors.waking import WakeCall
from storage.clock import wall_clock_us
from storage.secret import SecretBytes
from tests.postroom.tour import AGENTS
from web.mesh_params import CheckIn
from web.waking.addresses import target_of
from web.waking.message import check_secret, message_of

CHAPTER = AGENTS.read_text().partition("## Waking an agent\n")[2]
PROGRAM = re.compile(r"<!-- wake: python -->\n```python\n(.*?)```", re.S)
CHECK_IN, CALL = map(
    json.loads, re.findall(r"<!-- wake: (?:check-in|call) -->\n```json\n(.*?)```", CHAPTER, re.S)
)


def sent(secret: str) -> tuple[bytes, Mapping[str, str]]:
    """Return body and headers of a call as the server sends it."""
    call = WakeCall(
        CALL["agent_id"], CHECK_IN["wake"]["url"], SecretBytes(secret.encode()), 3, CALL["wake_token"]
    )
    body, headers = message_of(call, wall_clock_us())
    return body, dict(headers)


@pytest.fixture
def wake_token() -> Callable[[bytes, Mapping[str, str], str], str]:
    """The page's program."""
    [program] = PROGRAM.findall(CHAPTER)
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102 - our own page
    found: Callable[[bytes, Mapping[str, str], str], str] = names["wake_token"]
    return found


def test_the_check_in_of_the_page_is_one_that_the_server_takes() -> None:
    wake = msgspec.convert(CHECK_IN, CheckIn).wake
    assert wake is not None
    assert wake.secret is not None
    target_of(wake.url)
    check_secret(wake.secret)


def test_the_call_of_the_page_is_what_is_sent() -> None:
    body, _ = sent(CHECK_IN["wake"]["secret"])
    assert json.loads(body) == CALL


def test_the_program_of_the_page_takes_a_call_and_no_other(
    wake_token: Callable[[bytes, Mapping[str, str], str], str],
) -> None:
    secret = CHECK_IN["wake"]["secret"]
    assert wake_token(*sent(secret), secret) == CALL["wake_token"]
    other = "whsec_" + "A" * 32
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        wake_token(*sent(other), secret)
