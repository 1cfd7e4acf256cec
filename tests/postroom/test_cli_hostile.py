"""Text that strangers wrote changes nothing on a terminal, whatever it attacks: every command that shows messages is
given the same corpus, as body, path, query, header and type, into a pipe and onto a terminal. (What a browser makes of
it is held to the same in `tests/browser/test_hostile.py`.)
"""

import json
import os
import pty
import re
import subprocess
import unicodedata
from urllib.parse import quote

import httpx
import pytest

from tests.postroom.conftest import Command, run
from tests.postroom.serverproc import ServerProcess, clean_environment
from tests.program import PROGRAM

SLUG = "hostile"

CORPUS = (
    "\x1b[31mred\x1b[0m",
    "\x1b[2J\x1b[H the screen is wiped",
    "\x1b]0;another title\x07",
    "\x1b]8;;http://evil.example/\x1b\\a link\x1b]8;;\x1b\\",
    "\x1b]52;c;cm0gLXJmIH4K\x07 into the clipboard",
    '\x1bP$q"p\x1b\\ asks for an answer',
    "\x1b[6n\x1b[c answers by itself",
    "\x9b31m and \x9d0;title\x9c in eight bits",
    "one line\roverwritten",
    "shown\x08\x08\x08\x08\x08hidden",
    "bell\x07 shift\x0e out\x0f",
    "a\nfake: line\n2026-01-01T00:00:00Z  verified",
    "\u202etxet desrever\u202c \u2066isolated\u2069 \u200f\u061c",
    "\u2028separated\u2029",
    "[bold red]markup[/] [link=http://evil.example/]:skull:[/link]",
    "$(touch owned) `touch owned` ; touch owned",
    "<script>boom()</script> javascript:boom()",
)

DEEP = b"[" * 2_500_000 + b"]" * 2_500_000
"""Five megabytes of JSON that no recursion survives."""

STYLES = re.compile(r"\x1b\[[0-9;]*m")
"""What the program itself sends to a terminal: colours and weights, nothing else."""

REORDERING = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

TERMINAL_BYTES = 65_536


def acting(text: str) -> set[str]:
    """Return the characters that do something else than being seen. A line feed and a tab may end and part what is."""
    return {
        c
        for c in text
        if (unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c not in "\n\t") or c in REORDERING
    }


@pytest.fixture(scope="module")
def attacked(server: ServerProcess) -> str:
    """Return the token of an agent that has the corpus in its mail and in an inbox that it reads."""
    with httpx.Client(
        base_url=server.url, headers={"Authorization": f"Bearer {server.token}"}, trust_env=False
    ) as http:

        def done(path: str, body: object, **headers: str) -> httpx.Response:
            return http.post(path, json=body, headers=headers).raise_for_status()

        typed = {"header": "X-Signature", "event_type": "body:word"}
        verifier = {"verifier": "hmac", "secret": "a secret of the tests", "verifier_options": typed}
        done("/v1/inboxes", {"slug": SLUG, "search": True, **verifier})
        done("/v1/machines", {"name": "target"})
        done("/v1/agents", {"agent_id": "victim", "machine": "target"})
        token = done("/v1/tokens", {"kind": "agent", "agent": "victim", "inboxes": [SLUG]}).json()["token"]
        for text in CORPUS:
            seen = "".join(c for c in text if c.isascii() and c.isprintable())
            http.post(
                f"/in/{SLUG}/{quote(text)}?{quote(text)}",
                content=json.dumps({"word": text, text: 1}, ensure_ascii=False).encode(),
                headers={"X-Odd": seen.strip(), "Content-Type": "application/json"},
            ).raise_for_status()
            http.post(f"/in/{SLUG}", content=text.encode()).raise_for_status()
            letter = {"type": "created", "kind": "note", "subject": text, "text": text, "tags": ["tag"]}
            bearer = {"Authorization": f"Bearer {token}"}
            done("/v1/publish", {**letter, "to": {"agents": ["victim"]}}, **bearer)
        http.post(
            f"/in/{SLUG}", content=DEEP, headers={"Content-Type": "application/json"}
        ).raise_for_status()
    return token


COMMANDS = (
    ("messages", SLUG, "--limit", "100"),
    ("messages", SLUG, "--limit", "100", "--json"),
    ("tail", SLUG, "-n", "100"),
    ("tail", SLUG, "-n", "100", "--bodies"),
    ("wait", SLUG, "--after", "0"),
    ("wait", SLUG, "--after", "0", "--bodies"),
    ("search", SLUG, "word"),
    ("inbox", "--peek"),
    ("inbox", "--peek", "--json"),
    ("drain",),
)
"""Everything that shows several messages."""


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_lists_show_it_as_text(server: ServerProcess, attacked: str, words: tuple[str, ...]) -> None:
    result = run(*words, POSTROOM_URL=server.url, POSTROOM_TOKEN=attacked)
    assert result.exit_code == 0, result.output
    assert "red" in result.stdout
    assert acting(result.stdout + result.stderr) == set()


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["for people", "for scripts"])
def test_every_message_is_shown_as_text(command: Command, attacked: str, form: tuple[str, ...]) -> None:
    for seq in range(1, 2 * len(CORPUS) + 1):
        result = command("message", SLUG, str(seq), *form)
        assert result.exit_code == 0, result.output
        assert acting(result.stdout) == set(), seq
        if form:
            json.loads(result.stdout)


def test_five_megabytes_of_nested_json_are_refused_in_a_sentence_and_had_back_byte_for_byte(
    command: Command, attacked: str
) -> None:
    seq = str(2 * len(CORPUS) + 1)
    result = command("message", SLUG, seq)
    assert "its bytes are at" in result.stderr
    assert len(result.output) < 1_000
    assert command("raw", SLUG, seq).stdout_bytes == DEEP


@pytest.mark.parametrize(
    "words",
    [("messages", SLUG, "--limit", "100"), ("message", SLUG, "1"), ("raw", SLUG, "2"), ("inbox", "--peek")],
    ids=" ".join,
)
def test_a_terminal_gets_nothing_but_text_and_colours(
    server: ServerProcess, attacked: str, words: tuple[str, ...]
) -> None:
    shown = on_terminal(*words, POSTROOM_URL=server.url, POSTROOM_TOKEN=attacked)
    text = STYLES.sub("", shown).replace("\r\n", "\n")  # the terminal driver ends lines so
    assert "red" in text
    assert acting(text) == set()


def on_terminal(*words: str, **environment: str) -> str:
    """Run a command that ends by itself, with a terminal as its standard output; return what that was sent."""
    near, far = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, *words], env=clean_environment(**environment), stdin=subprocess.DEVNULL, stdout=far
    ) as process:
        os.close(far)
        pieces = []
        while True:
            try:
                pieces.append(os.read(near, TERMINAL_BYTES))
            except OSError:  # how Linux says that the other side is closed
                break
            if not pieces[-1]:
                break
        os.close(near)
    assert process.returncode == 0
    return b"".join(pieces).decode()
