"""Random programs of another shape than `programs`: jumps, pointers, copies, commas, deep expressions, counters at the
ends of their types, early exits, dynamic arrays, state."""

from __future__ import annotations

from random import Random
from typing import Any

import ecode
from ecode.types import (
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT8,
    UINT64,
    Array,
    Field,
    Pointer,
    Ref,
    Struct,
    record,
)

LEAF = Struct("Leaf", (Field("v", INT32), Field("k", Array(INT16, (3,))), Field("s", STRING)))
NODE = Struct(
    "Node", (Field("n", INT8), Field("z", Array(INT64, ("n",))), Field("leaf", Ref("Leaf")), Field("d", FLOAT64))
)
INPUT = record(
    "input",
    [
        Field("a", INT32),
        Field("b", INT64),
        Field("c", INT8),
        Field("u", UINT64),
        Field("w", UINT8),
        Field("q", FLOAT64),
        Field("s", STRING),
        Field("t", STRING),
        Field("node", Ref("Node")),
        Field("p", Pointer(INT32)),
        Field("pl", Pointer(Ref("Leaf"))),
        Field("m", INT32),
        Field("r", Array(Ref("Leaf"), ("m",))),
    ],
    [LEAF, NODE],
)
OUTPUT = record(
    "output",
    [
        Field("a", INT32),
        Field("b", INT64),
        Field("c", INT8),
        Field("u", UINT64),
        Field("s", STRING),
        Field("node", Ref("Node")),
        Field("m", UINT8),
        Field("r", Array(Ref("Node"), ("m",))),
    ],
    [LEAF, NODE],
)
PARAMS = [ecode.Param("input", INPUT), ecode.Param("output", OUTPUT, ecode.Mode.OUT)]
TYPES = ["signed char", "unsigned char", "short", "unsigned short", "int", "unsigned", "long", "unsigned long"]
ENDS = ["127", "128", "255", "32767", "65535", "2147483647", "2147483648", "4294967295", "9223372036854775807L"]
ENDS += ["(-9223372036854775807L - 1)", "18446744073709551615ul", "-128", "-2147483647 - 1", "0", "1", "-1"]


class Maker:
    """Draws one program at a time."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.fresh = self.depth = 0
        self.places: list[str] = []

    def pick(self, *texts: str) -> str:
        return self.random.choice(texts)

    def name(self) -> str:
        self.fresh += 1
        return f"v{self.fresh}"

    def program(self) -> str:
        """The text of a program with the parameters `PARAMS` and an `int` result."""
        self.places = ["output.a", "output.b", "output.c", "output.u", "output.node.leaf.v", "output.node.leaf.k[1]"]
        lines = ["Node n1, n2; Leaf l1; Leaf *pl = &l1; int a1[4]; int *p1 = a1; string s1; int j0 = 0, j1 = 0;"]
        self.places += ["n1.leaf.v", "l1.k[2]", "pl->v", "a1[j0 & 3]", "*p1", "pl->k[0]"]
        if self.random.random() < 0.5:
            lines.append("static int st = 2; static Leaf sl; static string ss; static unsigned char sc = 250;")
            self.places += ["st", "sl.v", "sl.k[j0 & 1]", "sc"]
            lines.append(
                self.pick("ss = input.s; output.s = ss;", "sl.s = input.t; sl = input.node.leaf; sc++;", "st *= 3;")
            )
        for _ in range(self.random.randint(1, 3)):
            name = self.name()
            lines.append(f"{self.pick(*TYPES)} {name} = {self.value(3)};")
            self.places.append(name)
        for label in range(self.random.randint(0, 2)):
            lines += [
                f"again{label}:",
                self.statement(),
                f"if (j{label}++ < {self.random.randint(0, 3)}) goto again{label};",
            ]
        lines += [self.statement() for _ in range(self.random.randint(2, 5))]
        if self.random.random() < 0.3:
            lines.insert(-1, f"if ({self.value(1)}) goto end;")
            lines.append("end: ;")
        return "{ " + "\n  ".join([*lines, f"return {self.value(3)};"]) + " }"

    def statement(self) -> str:
        self.depth += 1
        kinds = [
            "assign",
            "assign",
            "step",
            "comma",
            "exit",
            "count",
            "choose",
            "copy",
            "array",
            "point",
            "text",
            "call",
        ]
        if self.depth > 2:
            kinds = ["assign", "step", "comma", "copy", "text"]
        text: str = getattr(self, f"make_{self.random.choice(kinds)}")()
        self.depth -= 1
        return text

    def block(self) -> str:
        return "{ " + " ".join(self.statement() for _ in range(self.random.randint(0, 3))) + " }"

    def make_assign(self) -> str:
        op = self.pick("", "", "+", "-", "*", "^", "|", "<<", ">>", "%", "/")
        cast = "(long)" if op and op in "^|<<>>%" else ""
        return f"{self.pick(*self.places)} {op}= {cast}({self.value(4)});"

    def make_step(self) -> str:
        place = self.pick(*self.places)
        return self.pick(f"({place})++;", f"--{place};", f"output.b = -({place})--;", f"output.u += ++{place};")

    def make_comma(self) -> str:
        parts = [f"{self.pick(*self.places)} = {self.value(1)}" for _ in range(self.random.randint(1, 3))]
        return f"output.b = ({', '.join([*parts, self.value(2)])});"

    def make_exit(self) -> str:
        return f"if ({self.value(2)} {self.pick('>', '==', '<')} {self.value(1)}) return {self.value(1)};"

    def make_count(self) -> str:
        name, end = self.name(), self.pick(*ENDS)
        type_ = self.pick("int", "long", "signed char", "unsigned char", "short", "unsigned")
        op, step = self.pick("<", "<=", ">", ">=", "!="), self.pick("++", "--", " += 3", " -= 2")
        leave = self.pick("break;", f"if ({self.value(1)}) break;", f"if (j1++ > 5) break; {self.block()}")
        more = self.pick("", "", f"if ({self.value(1)}) continue;", f"if ({self.value(1)}) return {name};")
        near = f"{end} - ({self.pick('2', '-2', '5')})"
        head = f"for ({name} = {near}; {name} {op} {end}; {name}{step})"
        return f"{{ {type_} {name}; {head} {{ {more} {leave} }} output.b += {name}; }}"

    def make_choose(self) -> str:
        chain = " else ".join(f"if ({self.value(2)}) {self.block()}" for _ in range(self.random.randint(1, 4)))
        return chain + self.pick("", f" else {self.block()}")

    def make_copy(self) -> str:
        return self.pick(
            "n1 = input.node;", "n2 = n1;", "output.node = n1;", "l1 = input.node.leaf;", "*pl = n1.leaf;",
            "output.node = input.node;", "if (input.m > 0) l1 = input.r[input.m - 1];", "n1.leaf = *pl;",
            "output.m = 2; output.r[1] = n1; output.r[0] = output.r[1];", "output.r[j0 & 1] = input.node;",
            "output.node.leaf = input.r[0];", "n1 = n1;", "output.m = input.m; output.m--;",
        )  # fmt: skip

    def make_array(self) -> str:
        size = self.pick("2", "5", "input.node.n", "3 - j0", self.value(1))
        return self.pick(
            f"output.node.n = {size}; output.node.z[{self.pick('0', '1', 'j0')}] = {self.value(2)};",
            f"n1.n = {size}; n1.z[n1.n - 1] += {self.value(1)};",
            "{ int i; for (i = 0; i < input.node.n; i++) output.b += input.node.z[i]; }",
            "{ int i = 0; while (i < n1.n) output.b ^= n1.z[i++]; }",
            f"output.m = 3; output.r[2].n = 2; output.r[2].z[1] = {self.value(1)}; output.m = 1; output.m = 3;",
        )

    def make_point(self) -> str:
        return self.pick(
            "p1 = &a1[j0 & 3];", "if (p1 < &a1[3]) p1++;", "pl = &n1.leaf;", "pl = &output.node.leaf;", "p1 = &pl->v;",
            "if (input.p) output.a += *input.p;", "if (input.pl) l1 = *input.pl;", "output.a = *input.p;",
            "output.a += input.pl->k[j0];", "p1 += 1;", "output.b = p1 - a1;", "output.a = p1 == a1;", "p1 = a1;",
            "output.a = present(input.p) + 2 * present(input.s) + 4 * present(input.pl);",
        )  # fmt: skip

    def make_text(self) -> str:
        return self.pick(
            "s1 = input.s;", "s1 = input.t;", 's1 = "abc";', "output.s = s1;", "output.s = input.r[0].s;", "l1.s = s1;",
            "output.b += s1 == input.t;", 'output.b += s1 == "abc";', "output.a = input.s[j0];", "output.s = pl->s;",
            'output.a += strlen(s1 ? s1 : "") + (s1 != NULL);', "output.s = input.node.leaf.s;",
        )  # fmt: skip

    def make_call(self) -> str:
        other = self.pick("input.t", '"b"', "s1")
        return self.pick(
            f"output.a += strcmp(input.s, {other});", f"output.a = strncmp(input.s, {other}, {self.value(1)});",
            f"output.a -= strstr(input.s, {other}) != NULL;", f"output.a += strspn(input.s, {other});",
            f"output.a += strcspn(input.s, {other});", f"output.a += strchr(input.s, {self.value(1)}) == NULL;",
            f"output.b = sqrt({self.value(1)});", f"output.u = fabs({self.value(2)});",
        )  # fmt: skip

    def value(self, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.15:
            leaves = ["input.a", "input.b", "input.c", "input.u", "input.w", "input.q", "input.node.n", "j0", "input.m"]
            return self.pick(*leaves, *self.places, *self.places[-3:], *(f"({end})" for end in ENDS))
        one, other = self.value(depth - 1), self.value(depth - 1)
        whole, by = f"(long)({one})", f"(int)({other})"
        return self.pick(
            f"({one} {self.pick('+', '-', '*')} {other})",
            f"({one} {self.pick('<', '<=', '>', '>=', '==', '!=')} {other})",
            f"({whole} {self.pick('&', '|', '^', '<<', '>>')} {by})", f"({whole} {self.pick('/', '%')} ({by} | 1))",
            f"({one} ? {other} : {self.value(depth - 1)})", f"({one} {self.pick('&&', '||')} {other})",
            f"(({self.pick(*TYPES)})({one}))", f"(-({one}))", f"(~{whole})", f"(!({one}))", f"({one}, {other})",
            f"({one} + ({other} - ({self.value(depth - 1)} * {one})))", f"({self.pick(*self.places)} = {other})",
        )  # fmt: skip

    # Inputs

    def number(self, bits: int, *, is_signed: bool = True) -> int:
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
        return self.random.choice([0, 1, 2, low, high, high - 1, low + 1, self.random.randint(low, high)])

    def leaf(self) -> dict[str, Any]:
        text = self.random.choice([None, "", "abc", "é"])
        return {"v": self.number(32), "k": [self.number(16) for _ in range(3)], "s": text}

    def event(self) -> dict[str, Any]:
        """A value for the parameter `input`."""
        n, m = self.random.choice([0, 1, 3, 5]), self.random.choice([0, 1, 2, 4])
        numbers = {"a": self.number(32), "b": self.number(64), "c": self.number(8)}
        numbers |= {"u": self.number(64, is_signed=False), "w": self.number(8, is_signed=False)}
        return numbers | {
            "q": self.random.choice([0.0, -0.0, 1.5, 1e19, -1e300, float("nan"), float("inf")]),
            "s": self.random.choice([None, "", "abc", "abcabd"]),
            "t": self.random.choice([None, "", "ab", "abd", "abc"]),
            "node": {"n": n, "z": [self.number(64) for _ in range(n)], "leaf": self.leaf(), "d": 0.5},
            "p": self.random.choice([None, self.number(32)]),
            "pl": self.random.choice([None, self.leaf()]),
            "m": m,
            "r": [self.leaf() for _ in range(m)],
        }
