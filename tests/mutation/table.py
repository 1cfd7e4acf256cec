"""Which modules are mutated, and which tests are their own.

Listed are state machines, verifiers, cursors and parsers: modules without I/O, whose behaviour their unit tests must
pin down by themselves. The tests of a group judge the mutants of that group, and no others do.
"""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Group:
    """Modules that belong together: patterns of paths, and the tests (files, directories) that are theirs."""

    name: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]

    def paths(self) -> list[Path]:
        """Return the modules' paths, relative to the root."""
        return sorted(path.relative_to(ROOT) for pattern in self.modules for path in ROOT.glob(pattern))


MATCHING = ("beacons", "common", "scoring", "texts", "weights", "words")
VERIFYING = ("tests/web/verify", "tests/web/test_lone.py")

GROUPS = (
    Group(
        "inbox",
        (
            "actors/rules/append.py",
            "actors/rules/dropping.py",
            "actors/rules/restarts.py",
            "actors/rules/retention.py",
        ),
        ("tests/actors/test_rules.py", "tests/actors/test_rules_mail.py", "tests/actors/test_retention.py"),
    ),
    Group(
        "draining",
        ("actors/rules/draining.py",),
        ("tests/actors/test_draining.py", "tests/actors/test_marks.py"),
    ),
    Group("tail", ("actors/tail.py",), ("tests/actors/test_tail.py",)),
    Group(
        "presence",
        ("actors/rules/presence.py", "actors/rules/sessions.py", "actors/rules/wakes.py"),
        ("tests/actors/test_presence.py", "tests/actors/test_wakes.py"),
    ),
    Group(
        "delivering",
        (
            "actors/rules/allowance.py",
            "actors/rules/delivering.py",
            "actors/rules/delivery.py",
            "actors/rules/letters.py",
            "actors/rules/reach.py",
            "actors/rules/scope.py",
        ),
        (
            "tests/actors/test_allowance.py",
            "tests/actors/test_beacons_common.py",
            "tests/actors/test_delivery_records.py",
            "tests/actors/test_letters.py",
            "tests/actors/test_rules_deliveries.py",
        ),
    ),
    Group(
        "matching",
        tuple(f"actors/rules/matching/{name}.py" for name in MATCHING),
        (
            "tests/actors/test_matching_beacons.py",
            "tests/actors/test_matching_texts.py",
            "tests/actors/test_matching_words.py",
        ),
    ),
    Group(
        "index",
        tuple(f"actors/rules/matching/{name}.py" for name in ("index", "judging", "shelves")),
        ("tests/actors/test_matching_beacons.py", "tests/actors/test_matching_index.py"),
    ),
    Group("searching", ("actors/rules/searching/*.py",), ("tests/actors/test_search_words.py",)),
    Group(
        "signatures",
        ("web/verify/check.py", "web/verify/keys.py", "web/verify/lone.py", "web/verify/signatures.py"),
        VERIFYING,
    ),
    Group("templates", ("web/verify/template.py", "web/verify/template_scheme.py"), VERIFYING),
    Group("credentials", ("web/verify/credential*.py", "web/verify/publickeys.py"), VERIFYING),
    Group("forms", ("web/verify/form*.py", "web/verify/urlforms.py"), VERIFYING),
    Group(
        "verifiers",
        (
            "web/verify/describing.py",
            "web/verify/paths.py",
            "web/verify/registry.py",
            "web/verify/samples.py",
            "web/verify/schemes.py",
            "web/verify/signing.py",
            "web/verify/sources.py",
        ),
        VERIFYING,
    ),
    Group("claims", ("web/claims.py",), ("tests/web/test_claims.py", "tests/web/test_held_secrets.py")),
    Group("handshakes", ("web/handshakes/*.py",), ("tests/web/test_handshakes.py",)),
    Group(
        "addresses",
        ("web/addresses.py", "web/hosts.py", "web/waking/addresses.py"),
        ("tests/web/test_addresses.py", "tests/web/test_hosts.py", "tests/web/waking/test_addresses.py"),
    ),
    Group(
        "parameters",
        ("web/decoding.py", "web/grammar.py", "web/mesh_params.py", "web/params.py"),
        (
            "tests/web/test_decoding.py",
            "tests/web/test_grammar.py",
            "tests/web/test_mesh_params.py",
            "tests/web/test_params.py",
            "tests/web/test_params_reading.py",
            "tests/web/test_wording.py",
        ),
    ),
    Group(
        "held",
        ("web/diffs.py", "web/held.py"),
        ("tests/web/test_diffs.py", "tests/web/test_held.py", "tests/web/test_mesh_messages.py"),
    ),
    Group("cursors", ("web/sse.py",), ("tests/web/test_sse.py",)),
    Group("jsonrpc", ("web/mcp/jsonrpc.py",), ("tests/web/test_mcp_jsonrpc.py",)),
    Group("ids", ("web/request_ids.py",), ("tests/web/test_request_ids.py",)),
    Group("lanes", ("storage/lanes.py",), ("tests/storage/test_lanes.py",)),
    Group("sealing", ("storage/sealing.py",), ("tests/storage/test_sealing.py",)),
    Group("events", ("postroom/sse.py",), ("tests/postroom/test_sse.py",)),
)
