"""A secret that the inbox holds is not stored when a sender shows it, wherever the verifier looks at the moment."""

import json
from pathlib import Path
from typing import Any

import pytest

from storage.secret import SecretBytes
from tests.web.test_ingest import post, stored
from tests.wire.harness import wire
from web.claims import Held, said
from web.verify.model import Judgement

SHOWN = "pa/th secret%"
QUOTED = "pa%2Fth%20secret%25"
SECRETS = {
    "old": SHOWN.encode(),
    "plain": b"Shown-As-It-Is",
    "verify_token": b"handshake-token",
    "empty": b"",
}


@pytest.mark.parametrize("verifier", ["none", "github", "stripe", "okta", "header", "basic", "msgraph"])
@pytest.mark.parametrize(
    ("target", "stored_path"),
    [
        (f"/in/demo/{QUOTED}", "/[redacted]"),
        (f"/in/demo//{QUOTED}/rest?x=1", "//[redacted]/rest"),
        ("/in/demo/Shown-As-It-Is/rest", "/[redacted]/rest"),
        ("/in/demo/Shown%2dAs-It-Is", "/[redacted]"),
        ("/in/demo/handshake-token", "/[redacted]"),
    ],
)
async def test_a_secret_in_the_path_is_stored_by_no_verifier(
    tmp_path: Path, verifier: str, target: str, stored_path: str
) -> None:
    options = {"header": "X-Other"} if verifier == "header" else {}
    async with wire(tmp_path) as served:
        await served.inbox(secrets=SECRETS, verifier=verifier, verifier_options=options)
        assert (await post(served, target)).status == 200
        assert json.loads((await stored(served))[0].said)["path"] == stored_path


@pytest.mark.parametrize("verifier", ["none", "github", "okta", "basic"])
async def test_a_secret_in_any_header_is_stored_by_no_verifier(tmp_path: Path, verifier: str) -> None:
    fields = [("X-Old", SHOWN), ("X-New", "Shown-As-It-Is"), ("X-Near", "Shown-As-It-I5"), ("X-Empty", "")]
    async with wire(tmp_path) as served:
        await served.inbox(secrets=SECRETS, verifier=verifier)
        await post(served, "/in/demo", b"", fields)
        headers = dict(json.loads((await stored(served))[0].said)["headers"])
    shown = {name: headers[name] for name in ("x-old", "x-new", "x-near", "x-empty")}
    assert shown == {"x-old": "[redacted]", "x-new": "[redacted]", "x-near": "Shown-As-It-I5", "x-empty": ""}


async def test_a_verifier_that_is_changed_leaves_no_secret_in_messages(tmp_path: Path) -> None:
    from actors.commands import ChangeInbox
    from storage.records import InboxSettings

    async with wire(tmp_path) as served:
        record = await served.inbox(secrets=SECRETS, verifier="okta")
        for verifier in ("okta", "stripe", "none"):
            change = ChangeInbox(lambda record, name=verifier: ("", InboxSettings(verifier=name)))
            await served.service.change_inbox(record.inbox_id, change)
            await post(served, f"/in/demo/{QUOTED}", b"", [("X-Old", SHOWN)])
        for row in await stored(served):
            assert SHOWN.encode() not in row.said
            assert QUOTED.encode() not in row.said


async def test_an_inbox_without_secrets_stores_what_was_sent(tmp_path: Path) -> None:
    async with wire(tmp_path) as served:
        await served.inbox()
        await post(served, f"/in/demo/{QUOTED}", b"", [("X-Old", SHOWN)])
        message = json.loads((await stored(served))[0].said)
    assert message["path"] == f"/{QUOTED}"
    assert ["x-old", SHOWN] in message["headers"]


def test_only_values_of_a_secret_s_length_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []
    held = Held([SecretBytes(b"12345678")])

    def matches(self: Any, candidate: bytes) -> bool:
        compared.append(candidate)
        return False

    monkeypatch.setattr(SecretBytes, "matches", matches)
    headers = [(b"a", b"1"), (b"b", b"87654321"), (b"c", b"123456789"), (b"d", b"")]
    said(b"/x", b"", headers, Judgement(None, None, "", None), frozenset(), held)
    assert compared == [b"87654321"]
