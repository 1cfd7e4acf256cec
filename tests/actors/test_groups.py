"""Groups of watchers: who is in one, and that nothing is left of one that everybody has left."""

from actors.groups import Groups
from actors.watchers import Watcher


def test_a_group_is_there_for_as_long_as_somebody_is_in_it() -> None:
    groups: Groups[str] = Groups()
    first, second = Watcher(), Watcher()
    with groups.member("tok_1", first):
        with groups.member("tok_1", second), groups.member("tok_2", second):
            assert len(groups) == 2
            assert set(groups.of("tok_1")) == {first, second}
        assert groups.of("tok_1") == [first]
        assert groups.of("tok_2") == []
    assert len(groups) == 0


def test_who_leaves_twice_takes_nobody_else_out() -> None:
    groups: Groups[str] = Groups()
    watcher, other = Watcher(), Watcher()
    member = groups.member("tok_1", watcher)
    with member:
        pass
    with groups.member("tok_1", other), member:
        assert groups.of("tok_1") == [other]
    assert len(groups) == 0


def test_what_groups_give_out_may_be_gone_through_while_they_change() -> None:
    groups: Groups[int] = Groups()
    members = [groups.member(1, Watcher()) for _ in range(3)]
    for _ in groups.of(1):
        members.pop().__exit__(None, None, None)
    assert len(groups) == 0
