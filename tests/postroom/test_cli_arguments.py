"""Arguments that no option should take: they are wrong usage, said in a sentence, never a defect."""

import os
import subprocess
import sys

import pytest

from tests.postroom.conftest import run

TOKEN = {"POSTROOM_TOKEN": "prm_agent_x"}
LOADING_SECONDS = 30.0
NOWHERE = ("--url", "http://127.0.0.1:1")


@pytest.mark.parametrize("share", ["nan", "inf", "-0.1", "1.01", "much"])
@pytest.mark.parametrize(
    "words",
    [
        ("publish", "--subject", "s", "--text", "t", "--salience"),
        ("beacon", "place", "b", "--about", "words", "--min-score"),
        ("beacon", "test", "--about", "words", "--weight"),
    ],
    ids=" ".join,
)
def test_a_share_is_a_number_from_0_to_1(words: tuple[str, ...], share: str) -> None:
    result = run(*words, share, *NOWHERE, **TOKEN)
    assert result.exit_code == 2
    assert "is no number from 0 to 1" in result.stderr


@pytest.mark.parametrize("name", ["", ".", ".."])
@pytest.mark.parametrize(
    "words", [("beacon", "remove"), ("agent", "show"), ("agent", "delete", "--yes")], ids=" ".join
)
def test_what_would_be_another_path_is_no_name(words: tuple[str, ...], name: str) -> None:
    result = run(*words, name, *NOWHERE, **TOKEN)
    assert (result.exit_code, result.stderr) == (2, f'postroom: "{name}" is no name.\n')


@pytest.mark.parametrize("option", ["--text", "--subject"])
def test_bytes_that_are_no_text_are_wrong_usage(option: str) -> None:
    others = {"--text": "t", "--subject": "s"} | {option: os.fsdecode(b"\xff\x85")}
    words = [word for pair in others.items() for word in pair]
    done = subprocess.run(
        [sys.executable, "-m", "postroom", "publish", *words, *NOWHERE],
        env={**os.environ, **TOKEN},
        capture_output=True,
        text=True,
        timeout=LOADING_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        2,
        "postroom: an argument holds bytes that are no UTF-8 text.\n",
    )
