"""`docs/grpc.md` says what the code does."""

import re
from pathlib import Path

from grpclib.const import Status

from web.grpc import upstream
from web.grpc.statuses import STATUSES

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs" / "grpc.md").read_text()
PROTO = (ROOT / "web" / "grpc" / "postroom" / "v1" / "inbox.proto").read_text()

NOT_OF_PULLING = {"conflict", "epoch_changed", "cursor_ahead", "no_recipient"}
"""Errors that a pull never has; they have statuses all the same."""


def test_every_status_of_a_pull_is_explained_and_no_other() -> None:
    explained = re.findall(r"^\| `([A-Z_]+)` \|", SECTION, re.M)
    assert {Status[name] for name in explained} == {
        status for code, status in STATUSES.items() if code not in NOT_OF_PULLING
    }
    assert len(explained) == len(set(explained))


def test_the_limits_are_those_of_the_code() -> None:
    assert f"a message over {upstream.MAX_MESSAGE_BYTES // 1024} KiB" in SECTION
    assert f"at most {upstream.MAX_STREAMS} calls under way" in SECTION


def test_the_method_is_that_of_the_proto_file() -> None:
    found = re.search(r"<!-- proto -->\n```proto\n(.*?)```", SECTION, re.S)
    assert found is not None
    plain = " ".join(re.sub(r"//.*", "", PROTO).split())
    assert " ".join(found[1].split()) in plain
