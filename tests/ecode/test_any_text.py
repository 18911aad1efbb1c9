"""Whatever the text, the answer is a program or a diagnostic (issue 3, bad input)."""

from __future__ import annotations

import json
import os
import string
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

import ecode
from tests.ecode.engines import programs

LONG = os.environ.get("PBIO_LONG") == "1"
ROUNDS = 100_000 if LONG else 3_000
CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "ecode"
TOKENS = """{ } ( ) [ ] ; , . -> ++ -- + - * / % & | ^ ~ ! < > <= >= == != && || ? : = += -= <<= >> << 0 1 2.5
1e9 'a' "s"
int long char short unsigned double float string struct enum typedef static const void if else for while do break
continue goto return sizeof input output a b x1 Point input.e output.n output.z input.s &input.v[1] *p 0x7f 1u NULL
union extern L: #include /* */ // $ \\ ' " 99999999999999999999 1.5f {1,2} present strlen printf
"""


def answer(source: str) -> ecode.Program | ecode.CompileError:
    try:
        return ecode.compile(source, programs.PARAMS, functions=[ecode.PRINTF])
    except ecode.CompileError as error:
        rejected = error
    assert str(rejected).startswith("[ECODE_")
    assert rejected.diagnostics
    return rejected


def sources(random: Random) -> list[str]:
    """Programs to damage."""
    maker = programs.Maker(random, is_c=False)
    made = ["#include <string.h>\n" + maker.program() for _ in range(20)]
    if CORPUS.is_dir():
        made += [case["source"] for path in CORPUS.glob("*.json") for case in json.loads(path.read_text())["cases"]]
    return made


def damaged(random: Random, source: str) -> str:
    """A program with some characters or tokens changed, dropped, doubled or swapped."""
    text = source
    for _ in range(random.randint(1, 4)):
        at, to = sorted(random.choices(range(len(text) + 1), k=2))
        kind = random.randrange(5)
        if kind == 0:
            text = text[:at] + text[min(to, at + 10) :]
        elif kind == 1:
            text = text[:at] + random.choice(TOKENS.split()) + " " + text[at:]
        elif kind == 2:
            text = text[:at] + random.choice(string.printable + "\0\x80é") + text[at + 1 :]
        elif kind == 3:
            text = text[:to] + text[at : min(to, at + 30)] + text[to:]
        else:
            text = text[:at] + text[to : to + 5] + text[at:]
    return text


def texts(random: Random) -> Iterator[str]:
    known = sources(random)
    while True:
        yield "{ " + " ".join(random.choices(TOKENS.split(), k=random.randint(1, 40))) + " }"
        yield "".join(random.choices(string.printable + "\0\x7f", k=random.randint(0, 60)))
        for _ in range(4):
            yield damaged(random, random.choice(known))


def test_random_programs() -> None:
    random = Random(3)
    accepted = 0
    for _, source in zip(range(ROUNDS), texts(random), strict=False):
        found = answer(source)
        if isinstance(found, ecode.Program):
            accepted += 1
            run(found)
    assert 0 < accepted < ROUNDS / 2


def run(program: ecode.Program) -> None:
    """An accepted program ends: well, or with a trap."""
    with suppress(ecode.Trap):
        program.run({"input": {"n": 2, "z": [1, 2], "s": "abc", "e": 3}}, budget=200)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "\0",
        "{" * 100_000,
        "(" * 100_000,
        "{ return " + "(" * 5_000 + "1" + ")" * 5_000 + "; }",
        "{ return " + "-" * 5_000 + "1; }",
        "{ return " + "! " * 5_000 + "1; }",
        "{ return 1" + " + 1" * 100_000 + "; }",
        "{ int a; " + "a = " * 20_000 + "1; return a; }",
        "{ int a; " + "if (a) " * 20_000 + ";  return a; }",
        "{ int a; " + "if (a) ; else " * 20_000 + ";  return a; }",
        "{" + "{ " * 5_000 + "}" * 5_000 + "}",
        "{ int a" + "[2]" * 5_000 + "; return 1; }",
        "{ int " + "*" * 5_000 + "p; return 1; }",
        "{ return " + "9" * 100_000 + "; }",
        "{ return 0x" + "f" * 100_000 + "; }",
        "{ return 1e" + "9" * 10_000 + "; }",
        "{ int a[2147483647]; return 1; }",
        "{ int a[65536][65536][65536]; return 1; }",
        "{ struct s { struct s t; }; return 1; }",
        "{ typedef int T; typedef T T; return 1; }",
        "/*" * 100_000,
        "{ return 1; } //" + "x" * 1_000_000,
        "{ return 1; }" + " " * 1_000_000,
        '{ string s = "' + "a" * 100_000 + '"; return 1; }',
        "{ " + "int a; " * 10_000 + "}",
        "{ " + "b = c; " * 10_000 + "}",
        "{ " + ";" * 10_000 + " return 1; }",
        "{ " + "{ typedef int T; } " * 5_000 + " return 1; }",
        "{ switch " * 5_000,
    ],
    ids=lambda source: source[:24],
)
def test_hostile_programs(source: str) -> None:
    answer(source)


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("\ufeff{ return 1; }", "byte order mark"),
        ("{\u00a0return 1; }", "type a space"),
        ("{ string s = \u201cab\u201d; return 1; }", "straight quotes"),
        ("{ char c = \u2018a\u2019; return 1; }", "straight quotes"),
        ("{ return 2 \u2212 1; }", "type -"),
        ("{ return input['load'] > 1; }", "a field follows a dot: input.x"),
    ],
    ids=range(6),
)
def test_what_word_processors_and_python_write_gets_the_way_to_e_code(source: str, hint: str) -> None:
    with pytest.raises(ecode.EcodeError) as caught:
        ecode.compile(source)
    assert hint in str(caught.value)
    ecode.compile("{\r\n\treturn 1;\r\n}\r\n")
