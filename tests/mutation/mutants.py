"""The mutants of a module, as mutmut makes them, and what each of them changes.

mutmut writes all mutants of a module into one, which calls the function, or the mutant of it that is set. It mutates
functions and methods; decorated ones (properties, cached functions), class bodies and constants it leaves as they are.
Of what it makes, two kinds are not tried: other words, or letters, in a sentence for people, and another case of the
name of a codec, which has none.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.utils.format_utils import get_mutant_name

ORIGINAL = "__mutmut_orig"
SENTENCE_BLANKS = 2
CODECS = frozenset({'"ascii"', '"latin-1"', '"utf-8"', '"utf-16-be"'})

_LITERAL = re.compile(r"""\"(?:[^"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'""")


@dataclass(frozen=True, order=True)
class Change:
    """What a mutant changes: in which function, and the lines before and after, without their indentation."""

    module: str
    function: str
    was: str
    becomes: str


@dataclass(frozen=True)
class Mutant:
    """One mutant: the name that sets it, the name under which a call of its function is noted, and its change."""

    name: str
    function: str
    change: Change


def mutate(path: Path) -> list[Mutant]:
    """Put the mutants of the module at a path (relative to the working directory) into it."""
    made = mutate_file_contents(str(path), path.read_text())
    lines = made.code.splitlines()
    path.write_text(made.code)
    bodies = {
        name: [" ".join(line.split()).replace(name, "") for line in lines[span.start - 1 : span.end]]
        for name, span in made.line_span_by_function_name.items()
    }
    changes = {
        name: _change(path, name, bodies[name.partition("__mutmut_")[0] + ORIGINAL], bodies[name])
        for name in made.mutant_names
    }
    return [
        Mutant(get_mutant_name(path, name), get_mutant_name(path, name.partition("__mutmut_")[0]), change)
        for name, change in changes.items()
        if not is_wording(change.was, change.becomes)
    ]


def is_wording(was: str, becomes: str) -> bool:
    """Whether nothing but a sentence, or the case of a codec's name, is different."""
    olds, news = _LITERAL.findall(was), _LITERAL.findall(becomes)
    if _LITERAL.sub("", was) != _LITERAL.sub("", becomes) or len(olds) != len(news):
        return False
    old, new = next((pair for pair in zip(olds, news, strict=True) if pair[0] != pair[1]), ("", ""))
    return old.count(" ") >= SENTENCE_BLANKS or (old.lower() == new.lower() and old.lower() in CODECS)


def _change(path: Path, name: str, before: list[str], after: list[str]) -> Change:
    first = _same(iter(before), iter(after))
    last = _same(reversed(before[first:]), reversed(after[first:]))
    function = name.partition("__mutmut_")[0].removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
    was, becomes = (" ".join(lines[first : len(lines) - last]) for lines in (before, after))
    return Change(str(path), function, was, becomes)


def _same(some: Iterator[str], others: Iterator[str]) -> int:
    """Count the lines that both begin with."""
    count = 0
    for one, other in zip(some, others, strict=False):
        if one != other:
            break
        count += 1
    return count
