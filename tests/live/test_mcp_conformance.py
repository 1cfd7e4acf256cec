"""The official conformance suite, in both eras: what is not in a baseline passes, and nothing in a baseline does."""

import re
from pathlib import Path

import pytest

from tests.mcp.conformance import endpoint, suite

BASELINES = Path(__file__).parents[1] / "mcp"
EVERY_BASELINE = sorted(BASELINES.glob("*.yml"))

HANDSHAKE = "2025-11-25"
NEWEST = "2026-07-28"

MUST_PASS = {
    HANDSHAKE: (
        "server-initialize",
        "ping",
        "tools-list",
        "tools-call-simple-text",
        "tools-call-image",
        "tools-call-audio",
        "tools-call-embedded-resource",
        "tools-call-mixed-content",
        "tools-call-error",
        "json-schema-2020-12",
        "dns-rebinding-protection",
    ),
    NEWEST: (
        "server-stateless",
        "http-header-validation",
        "tools-list",
        "tools-call-simple-text",
        "tools-call-image",
        "tools-call-audio",
        "tools-call-embedded-resource",
        "tools-call-mixed-content",
        "tools-call-error",
        "json-schema-2020-12",
        "dns-rebinding-protection",
        "input-required-result-unsupported-methods",
        "input-required-result-validate-input",
    ),
}

SUMMARY_LINE = re.compile(
    r"^(?P<mark>[✓✗]) (?P<scenario>\S+): (?P<passed>\d+) passed, (?P<failed>\d+) failed$", re.M
)


@pytest.mark.parametrize(("version", "baseline"), [(HANDSHAKE, "legacy.yml"), (NEWEST, "modern.yml")])
async def test_a_version_is_served_as_it_requires(version: str, baseline: str, tmp_path: Path) -> None:
    async with endpoint(tmp_path, fixtures=True) as url:
        # The suite asks for lists that nobody declared, as some clients do; the option for those is the address's.
        code, said = await suite(
            tmp_path,
            f"{url}?lists=empty",
            *("--requirements", version, "--expected-failures", str(BASELINES / baseline)),
        )
    assert code == 0, said
    passed = {found["scenario"] for found in SUMMARY_LINE.finditer(said) if found["mark"] == "✓"}
    assert set(MUST_PASS[version]) <= passed, said


@pytest.mark.parametrize(
    ("scenario", "version"),
    [
        ("tools-list", HANDSHAKE),
        ("dns-rebinding-protection", HANDSHAKE),
        ("tools-list", NEWEST),
        ("dns-rebinding-protection", NEWEST),
        ("server-stateless", NEWEST),
        ("http-header-validation", NEWEST),
    ],
)
async def test_the_real_tools_pass_a_scenario(scenario: str, version: str, tmp_path: Path) -> None:
    async with endpoint(tmp_path, fixtures=False) as url:
        code, said = await suite(
            tmp_path,
            url,
            *("--scenario", scenario, "--spec-version", version),
            *("--expected-failures", str(BASELINES / "real-tools.yml")),
        )
    assert code == 0, said


@pytest.mark.parametrize("path", EVERY_BASELINE, ids=lambda path: path.name)
def test_every_entry_of_a_baseline_has_its_reason(path: Path) -> None:
    entries = [line for line in path.read_text().splitlines() if line.lstrip().startswith("- ")]
    assert entries
    for entry in entries:
        assert re.fullmatch(r"  - [a-z0-9:-]+ # \S.{10,}", entry), entry
