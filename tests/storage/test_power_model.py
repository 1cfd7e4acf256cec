"""The model of a disk whose power is cut: what may be lost, and what may not."""

import random

from tests.storage.power.image import Change, Folder, Image, Renaming

SECTOR = 512


def outcomes(image: Image, fate: str = "torn", times: int = 300) -> set[bytes]:
    return {image.after_a_cut(random.Random(n), fate, SECTOR) for n in range(times)}  # type: ignore[arg-type]  # one of the fates that exist


def file(*changes: Change, durable: bytes = b"") -> Image:
    return Image(bytearray(durable), list(changes))


def test_what_was_synced_is_never_lost() -> None:
    image = file(Change(0, b"new"), durable=b"old")
    image.sync()
    assert outcomes(image) == {b"new"}


def test_what_was_not_synced_is_lost_or_kept_as_a_whole() -> None:
    image = file(Change(1, b"NE"), Change(2), durable=b"old")
    assert outcomes(image, "lost") == {b"old"}
    assert outcomes(image, "kept") == {b"oN"}


def test_a_torn_write_is_whole_sectors_old_or_new_in_any_order() -> None:
    old, new = b"o" * SECTOR, b"n" * SECTOR
    image = file(Change(0, new + new), durable=old + old)
    assert outcomes(image) == {one + two for one in (old, new) for two in (old, new)}


def test_a_sector_that_was_written_twice_has_any_of_its_contents() -> None:
    image = file(Change(0, b"1"), Change(0, b"2"), durable=b"0")
    assert outcomes(image) == {b"0", b"1", b"2"}


def test_a_write_that_begins_within_a_sector_leaves_what_is_before_it() -> None:
    assert Change(500, b"x" * 20).sectors(SECTOR) == [Change(500, b"x" * 12), Change(512, b"x" * 8)]


def test_a_part_that_arrived_behind_one_that_did_not_has_zeros_or_rubbish_before_it() -> None:
    found = outcomes(file(Change(0, b"n" * SECTOR), Change(SECTOR, b"m")))
    assert bytes(SECTOR) + b"m" in found
    assert any(len(one) == SECTOR + 1 and one[:SECTOR] not in (bytes(SECTOR), b"n" * SECTOR) for one in found)


def test_what_a_failed_sync_has_let_go_of_no_later_one_makes_durable() -> None:
    found = set()
    for n in range(50):
        image = file(Change(0, b"n"), durable=b"o")
        image.forget(random.Random(n))
        image.sync()
        found.add(bytes(image.durable))
    assert found == {b"o", b"n"}


def test_names_are_durable_once_their_folder_was_synced_and_not_by_the_sync_of_a_file() -> None:
    folder = Folder()
    image = file()
    folder.change(Renaming("a", image))
    image.pending.append(Change(0, b"content"))
    image.sync()
    assert {frozenset(folder.after_a_cut(random.Random(n)).items()) for n in range(20)} == {
        frozenset(),
        frozenset({("a", b"content")}),
    }
    folder.sync()
    folder.change(Renaming("b", image, also_gone="a"))
    assert {tuple(folder.after_a_cut(random.Random(n))) for n in range(20)} == {("a",), ("b",)}
    folder.change(Renaming("b", None))
    assert {tuple(folder.after_a_cut(random.Random(n))) for n in range(60)} >= {("a",), ("b",), ()}
    folder.sync()
    assert folder.after_a_cut(random.Random(0)) == {}
