"""That the table and the list of survivors speak of what is there. The mutants are tried by `make mutants`."""

import re

import pytest

from tests.mutation.mutants import is_wording
from tests.mutation.survivors import listed
from tests.mutation.table import GROUPS, ROOT, Group

IMPURE = re.compile(r"^(?:import|from) (?:trio|apsw|quart|hypercorn|httpx|socket)\b", re.MULTILINE)
FEWEST_WORDS_OF_A_REASON = 3


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_a_group_has_pure_modules_and_tests(group: Group) -> None:
    assert all(list(ROOT.glob(pattern)) for pattern in (*group.modules, *group.tests))
    assert [path for path in group.paths() if IMPURE.search((ROOT / path).read_text())] == []


def test_no_module_is_mutated_twice() -> None:
    paths = [path for group in GROUPS for path in group.paths()]
    assert len(paths) == len(set(paths))


def test_a_survivor_that_is_listed_stands_in_its_module_and_has_a_reason() -> None:
    mutated = {str(path) for group in GROUPS for path in group.paths()}
    texts = {module: " ".join((ROOT / module).read_text().split()) for module in mutated}
    for change, reason in listed().items():
        assert change.was in texts[change.module], change
        assert len(reason.split()) >= FEWEST_WORDS_OF_A_REASON, change


@pytest.mark.parametrize(
    ("was", "becomes", "wording"),
    [
        ('raise Bad("so it is.")', 'raise Bad("XXso it is.XX")', True),
        ('raise Bad("So it is.")', 'raise Bad("so it is.")', True),
        ('raise Bad("So it is.")', "raise Bad(None)", False),
        ('text.decode("latin-1")', 'text.decode("LATIN-1")', True),
        ('text.decode("latin-1")', 'text.decode("XXlatin-1XX")', False),
        ('got["key"]', 'got["KEY"]', False),
        ('f("a", "so it is")', 'f("XXaXX", "so it is")', False),
        ('f("a")', "f()", False),
        ("a < 1", "a <= 1", False),
    ],
)
def test_other_words_in_a_sentence_are_no_mutant(was: str, becomes: str, wording: bool) -> None:
    assert is_wording(was, becomes) == wording
