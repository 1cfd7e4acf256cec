"""`postroom connect`: each client's own format, the token only by the name of a variable, the options that it needs."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from postroom.connecting import CLIENTS
from tests.postroom.conftest import run
from tests.postroom.test_cli import fine

URL = "https://hooks.example.com"
SECRET = "prm_agent_do_not_print_me"

PAGE = Path(__file__).parents[2] / "docs" / "connecting.md"
BLOCK = re.compile(r"<!-- connect ([a-z -]+) -->\n```\w+\n(.*?)```", re.S)


def connected(*words: str, url: str = URL) -> str:
    return fine(run("connect", *words, POSTROOM_URL=url, POSTROOM_TOKEN=SECRET))


def test_the_page_shows_what_is_printed() -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    assert {words.split()[0] for words, _ in blocks} == set(CLIENTS)
    for words, text in blocks:
        assert connected(*words.split()) == text


@pytest.mark.parametrize("stdio", [(), ("--stdio",)])
@pytest.mark.parametrize("client", CLIENTS)
def test_the_token_is_named_and_never_printed(client: str, stdio: tuple[str, ...]) -> None:
    result = run("connect", client, *stdio, POSTROOM_URL=URL, POSTROOM_TOKEN=SECRET)
    assert result.exit_code == 0
    assert SECRET not in result.output
    assert "POSTROOM_TOKEN" in result.stdout
    assert result.stderr.startswith("postroom: ")


def test_claude_code_gets_a_command_whose_reference_the_shell_leaves_alone() -> None:
    text = connected("claude-code")
    assert shlex.split(text) == [
        *("claude", "mcp", "add", "--transport", "http", "--scope", "project", "postroom"),
        f"{URL}/mcp?page_bytes=65536",
        *("--header", "Authorization: Bearer ${POSTROOM_TOKEN}"),
    ]
    assert "'Authorization: Bearer ${POSTROOM_TOKEN}'" in text


def test_cursor_gets_a_url_at_which_its_questions_are_answered() -> None:
    assert json.loads(connected("cursor")) == {
        "mcpServers": {
            "postroom": {
                "url": f"{URL}/mcp?lists=empty",
                "headers": {"Authorization": "Bearer ${env:POSTROOM_TOKEN}"},
            }
        }
    }


def test_vscode_gets_its_own_keys() -> None:
    assert json.loads(connected("vscode")) == {
        "servers": {
            "postroom": {
                "type": "http",
                "url": f"{URL}/mcp",
                "headers": {"Authorization": "Bearer ${env:POSTROOM_TOKEN}"},
            }
        }
    }


def test_codex_gets_a_table_of_its_toml_file() -> None:
    assert tomllib.loads(connected("codex")) == {
        "mcp_servers": {
            "postroom": {"url": f"{URL}/mcp?page_bytes=65536", "bearer_token_env_var": "POSTROOM_TOKEN"}
        }
    }


def test_the_plain_form_is_what_most_clients_take() -> None:
    assert json.loads(connected("json", "--name", "mail", "--token-env", "MAIL_TOKEN")) == {
        "mcpServers": {
            "mail": {
                "type": "http",
                "url": f"{URL}/mcp",
                "headers": {"Authorization": "Bearer ${MAIL_TOKEN}"},
            }
        }
    }


def test_over_stdio_the_options_of_the_url_are_arguments() -> None:
    [cursor] = json.loads(connected("cursor", "--stdio"))["mcpServers"].values()
    assert [cursor["command"], *cursor["args"]] == ["postroom", "mcp", "--url", URL, "--empty-lists"]
    assert cursor["env"] == {"POSTROOM_TOKEN": "${env:POSTROOM_TOKEN}"}
    [codex] = tomllib.loads(connected("codex", "--stdio"))["mcp_servers"].values()
    assert codex["args"] == ["mcp", "--url", URL, "--page-bytes", "65536"]
    assert codex["env_vars"] == ["POSTROOM_TOKEN"]
    words = shlex.split(connected("claude-code", "--stdio", "--token-env", "MAIL_TOKEN"))
    assert words[words.index("--env") + 1] == "POSTROOM_TOKEN=${MAIL_TOKEN}"
    assert words[words.index("--") + 1 :] == ["postroom", "mcp", "--url", URL, "--page-bytes", "65536"]


@pytest.mark.parametrize("end", ["/", "/mcp", "/mcp/"])
def test_the_end_of_the_url_does_not_matter(end: str) -> None:
    assert f'"{URL}/mcp"' in connected("vscode", url=f"{URL}{end}")


@pytest.mark.parametrize(
    "words",
    [
        ("claude-code", "--name", "two words"),
        ("claude-code", "--name", ""),
        ("json", "--token-env", "$(id)"),
        ("json", "--token-env", "prm_agent_pasted_by_mistake"),
        ("json", "--url", "hooks.example.com"),
        ("codex", "--stdio", "--token-env", "OTHER"),
        ("emacs",),
    ],
)
def test_what_a_client_could_not_read_is_refused(words: tuple[str, ...]) -> None:
    result = run("connect", *words)
    assert (result.exit_code, result.stdout) == (2, "")
