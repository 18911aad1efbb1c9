"""Random well-typed programs and inputs for them.

A `Maker` draws everything from one `random.Random`. With `is_c` it keeps to what means the same in C, where C leaves
nothing undefined under `-fwrapv`.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

import ecode
from ecode.types import (
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    Array,
    Basic,
    Field,
    Ref,
    Struct,
    record,
)

NUMBERS: dict[str, Basic] = {
    "a": INT8, "b": UINT8, "c": INT16, "d": UINT16, "e": INT32, "f": UINT32, "g": INT64, "h": UINT64,
    "p": FLOAT32, "q": FLOAT64,
}  # fmt: skip
C_NAMES = {
    INT8: "signed char", UINT8: "unsigned char", INT16: "short", UINT16: "unsigned short", INT32: "int",
    UINT32: "unsigned", INT64: "long", UINT64: "unsigned long", FLOAT32: "float", FLOAT64: "double",
}  # fmt: skip
POINT = Struct("Point", (Field("x", INT32), Field("y", FLOAT64), Field("k", Array(INT16, (2,)))))
INPUT = record(
    "input",
    [
        *(Field(name, type_) for name, type_ in NUMBERS.items()),
        Field("v", Array(INT32, (4,))),
        Field("w", Array(FLOAT64, (2, 3))),
        Field("n", INT32),
        Field("z", Array(INT16, ("n",))),
        Field("o", Ref("Point")),
        Field("s", STRING),
        Field("t", STRING),
        Field("m", INT32),
        Field("r", Array(Ref("Point"), ("m",))),
    ],
    [POINT],
)
OUTPUT = record(
    "output",
    [
        *(Field(name, type_) for name, type_ in NUMBERS.items()),
        Field("v", Array(INT32, (4,))),
        Field("n", INT32),
        Field("z", Array(INT16, ("n",))),
        Field("y", Array(FLOAT64, ("n",))),
        Field("o", Ref("Point")),
        Field("s", STRING),
        Field("m", UINT8),
        Field("r", Array(Ref("Point"), ("m",))),
    ],
    [POINT],
)
PARAMS = [ecode.Param("input", INPUT), ecode.Param("output", OUTPUT, ecode.Mode.OUT)]
# The part of the records that is a plain C structure.
C_FIELDS = (*NUMBERS, "v")
TEXTS = [None, "", "a", "abc", "abd", "IBM", "x" * 20, "é"]


class Maker:
    """Draws one program at a time."""

    def __init__(self, random: Random, *, is_c: bool) -> None:
        self.random, self.is_c = random, is_c
        self.locals: list[tuple[str, Basic]] = []
        self.counters: set[str] = set()
        self.fresh = 0
        self.depth = 0

    def program(self) -> str:
        """The text of a program with the parameters `PARAMS` and an `int` result."""
        self.locals, self.counters, self.fresh, self.depth = [], set(), 0, 0
        lines = [self.declaration() for _ in range(self.random.randint(1, 4))]
        if not self.is_c and self.random.random() < 0.4:
            lines += ["static long count = 3; count += 1;", 'static string last = "none";']
            lines += [self.random.choice(["last = input.s;", "if (input.e > 0) last = input.t;", ""])]
            lines += ["output.s = last; output.g = count;"]
        lines += [self.statement() for _ in range(self.random.randint(2, 5))]
        lines.append(f"return {self.integer(3)};")
        return "{ " + "\n  ".join(lines) + " }"

    def name(self) -> str:
        self.fresh += 1
        return f"x{self.fresh}"

    def declaration(self) -> str:
        name, type_ = self.name(), self.random.choice(list(C_NAMES))
        value = self.value(type_, 2)
        self.locals.append((name, type_))
        return f"{C_NAMES[type_]} {name} = {value};"

    # Statements

    def statement(self) -> str:
        self.depth += 1
        kinds = ["assign", "assign", "compound", "step", "if", "for", "while", "do", "declare", "block"]
        if not self.is_c:
            kinds += ["resize", "string", "record", "pointer", "trap"]
        if self.depth > 3:
            kinds = ["assign", "compound", "step"]
        text: str = getattr(self, f"make_{self.random.choice(kinds)}")()
        self.depth -= 1
        return text

    def body(self) -> str:
        known = len(self.locals)
        text = " ".join(self.statement() for _ in range(self.random.randint(1, 3)))
        del self.locals[known:]
        return "{ " + text + " }"

    def make_assign(self) -> str:
        place, type_ = self.place()
        return f"{place} = {self.value(type_, 3)};"

    def make_compound(self) -> str:
        place, type_ = self.place()
        op = self.random.choice("+-*" if self.is_floating(type_) else "+-*&|^")
        if self.is_floating(type_):
            return f"{place} {op}= {self.any_number(2)};"
        if not self.is_c and self.random.random() < 0.3:
            return f"{place} {self.random.choice(['+', '*', '/', '%', '<<', '>>'])}= {self.integer(2)};"
        return f"{place} {op}= {self.integer(2)};"

    def make_step(self) -> str:
        place, _ = self.place()
        return self.random.choice([f"{place}++;", f"--{place};", f"++{place};", f"{place}--;"])

    def make_if(self) -> str:
        text = f"if ({self.condition(2)}) {self.body()}"
        return text + (f" else {self.body()}" if self.random.random() < 0.5 else "")

    def make_for(self) -> str:
        counter = self.counter()
        bound = self.random.choice(["3", "5", "4", "input.n" if not self.is_c else "2"])
        head = self.random.choice(
            [
                f"for ({counter} = 0; {counter} < {bound}; {counter}++)",
                f"for ({counter} = {bound}; {counter} > 0; {counter} -= 1)",
                f"for ({counter} = 1; {counter} <= {bound}; {counter} = {counter} + 1)",
            ]
        )
        extra = self.random.choice(["", "", f"if ({self.condition(1)}) continue;", f"if ({self.condition(1)}) break;"])
        return f"{self.declared(counter)} {head} {{ {extra} {self.body()} }}"

    def make_while(self) -> str:
        counter = self.counter()
        extra = self.random.choice(["", f"if ({self.condition(1)}) continue;", f"if ({self.condition(1)}) break;"])
        return f"{self.declared(counter)} while ({counter}++ < 4) {{ {extra} {self.body()} }}"

    def make_do(self) -> str:
        counter = self.counter()
        extra = self.random.choice(["", f"if ({self.condition(1)}) continue;"])
        return f"{self.declared(counter)} do {{ {extra} {self.body()} }} while (++{counter} < 3);"

    def counter(self) -> str:
        name = self.name()
        self.counters.add(name)
        return name

    def declared(self, counter: str) -> str:
        return f"int {counter} = 0;"

    def make_declare(self) -> str:
        return self.declaration()

    def make_block(self) -> str:
        return self.body()

    def make_resize(self) -> str:
        size = self.random.choice(["input.n", "2", "output.n + 1", "3", self.integer(1)])
        index = self.random.choice(["0", "output.n - 1", "1", self.integer(1)])
        return f"output.n = {size}; output.z[{index}] = {self.integer(1)}; output.y[{index}] += {self.floating(1)};"

    def make_string(self) -> str:
        return f"output.s = {self.string()};"

    def make_record(self) -> str:
        return self.random.choice(
            [
                "output.o = input.o;",
                "output.m = 2; output.r[1] = input.o; output.r[0].x = 4; output.r[1].k[0] += 2;",
                "if (input.m > 0) output.o = input.r[input.m - 1];",
                "output.m = input.m; { int j; for (j = 0; j < input.m; j++) output.r[j] = input.r[j]; }",
            ]
        )

    def make_pointer(self) -> str:
        return self.random.choice(
            [
                "{ int *q = &input.v[1]; output.e = q[1] + *(q + 2) + (q > &input.v[0]); }",
                f"{{ int *q = &output.v[0]; q[{self.integer(1)} & 3] = 5; q++; *q += {self.integer(1)}; }}",
                "{ short *q = input.z; if (input.n > 1) output.c = q[1] - *q; }",
                "{ Point *q = &output.o; q->x = 3; q->k[1] = 2; output.o.x += q->x; }",
                f"{{ int *q = &input.v[0]; output.e = q[{self.integer(1)}]; }}",
            ]
        )

    def make_trap(self) -> str:
        return self.random.choice(
            [
                f"output.e = {self.integer(1)} / {self.integer(1)};",
                f"output.g = input.g % {self.integer(1)};",
                f"output.e = input.z[{self.integer(1)}];",
                f"output.v[{self.integer(1)}] = 1;",
                f"output.e = input.s[{self.integer(1)} & 7];",
                "output.n = input.e;",
            ]
        )

    # Expressions

    def is_floating(self, type_: Basic) -> bool:
        return type_ in (FLOAT32, FLOAT64)

    def place(self) -> tuple[str, Basic]:
        places = [(name, type_) for name, type_ in self.locals if name not in self.counters]
        places += [(f"output.{name}", type_) for name, type_ in NUMBERS.items()]
        places.append((f"output.v[{self.random.randint(0, 3)}]", INT32))
        if not self.is_c:
            places += [("output.o.x", INT32), ("output.o.y", FLOAT64), ("output.o.k[1]", INT16)]
        return self.random.choice(places)

    def value(self, type_: Basic, depth: int) -> str:
        """Something to assign to a type. In C a float beyond an integer's range must not become one."""
        if self.is_floating(type_):
            return self.any_number(depth)
        if self.is_c or self.random.random() < 0.8:
            return self.integer(depth)
        return self.any_number(depth)

    def any_number(self, depth: int) -> str:
        return self.floating(depth) if self.random.random() < 0.6 else self.integer(depth)

    def integer(self, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.2:
            return self.integer_leaf()
        left, right = self.integer(depth - 1), self.integer(depth - 1)
        kind = self.random.randrange(12)
        if kind < 4:
            return f"({left} {self.random.choice(['+', '-', '*', '&', '|', '^'])} {right})"
        if kind == 4:
            return f"({left} {self.random.choice(['<<', '>>'])} ({right} & 15))"
        if kind == 5:
            return f"({left} {self.random.choice(['/', '%'])} (({right} & 7) + 1))"
        if kind == 6:
            return f"({self.condition(depth - 1)} ? {left} : {right})"
        if kind == 7:
            return f"({self.random.choice(['-', '~', '!', '+'])} {left})"
        if kind == 8:
            return f"(({C_NAMES[self.random.choice([t for t in C_NAMES if not self.is_floating(t)])]}){left})"
        if kind == 9:
            return f"({self.condition(depth - 1)})"
        if kind == 10 and not self.is_c:
            return self.random.choice(
                [
                    f"({left} {self.random.choice(['<<', '>>'])} {right})",
                    f"(int){self.floating(depth - 1)}",
                    f"(unsigned long){self.floating(depth - 1)}",
                    f"(unsigned char){self.floating(depth - 1)}",
                    f"(input.s == {self.string()})",
                    "input.v[input.n & 3]",
                    'strlen(input.s ? input.s : "none")',
                    f"({left}, {right})",
                ]
            )
        return f"({left} {self.random.choice(['<', '<=', '>', '>=', '==', '!='])} {right})"

    def integer_leaf(self) -> str:
        integers = [n for n, t in NUMBERS.items() if not self.is_floating(t)]
        leaves = [f"input.{self.random.choice(integers)}", f"input.v[{self.random.randint(0, 3)}]"]
        leaves += [f"output.{self.random.choice(integers)}"]
        leaves += [name for name, type_ in self.locals if not self.is_floating(type_)][-3:]
        leaves += [self.random.choice(["0", "1", "-1", "7", "255", "65535", "0x7fffffff", "2147483648", "1u", "3L"])]
        leaves += [self.random.choice(["0xFFFFFFFFFFFFFFFFul", "-9223372036854775807L", "'a'", "017", "-128"])]
        return self.random.choice(leaves)

    def floating(self, depth: int) -> str:
        if depth == 0 or self.random.random() < 0.2:
            leaves = ["input.p", "input.q", "output.q", "output.p", "0.5", "2.0f", "1e10", "3.25", "0.0", "-1.5"]
            leaves += [name for name, type_ in self.locals if self.is_floating(type_)][-2:]
            return self.random.choice(leaves)
        left, right = self.any_number(depth - 1), self.floating(depth - 1)
        kind = self.random.randrange(6)
        if kind < 4:
            return f"({left} {self.random.choice(['+', '-', '*', '/'])} {right})"
        if kind == 4:
            return f"({self.condition(depth - 1)} ? {left} : {right})"
        return f"(- {right})" if self.random.random() < 0.5 else f"((float){left})"

    def condition(self, depth: int) -> str:
        op = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        if depth and self.random.random() < 0.3:
            return f"({self.condition(depth - 1)} {self.random.choice(['&&', '||'])} {self.condition(depth - 1)})"
        if self.random.random() < 0.3:
            return f"{self.floating(depth)} {op} {self.any_number(depth)}"
        return f"{self.integer(depth)} {op} {self.integer(depth)}"

    def string(self) -> str:
        return self.random.choice(
            ["input.s", "input.t", '"IBM"', '""', '(input.e > 0 ? input.s : "no")', "output.s", '"a\\n\\x41"']
        )

    # Inputs

    def event(self) -> dict[str, Any]:
        """A value for the parameter `input`."""
        values: dict[str, Any] = {name: self.number(type_) for name, type_ in NUMBERS.items()}
        values["v"] = [self.number(INT32) for _ in range(4)]
        values["w"] = [[self.number(FLOAT64) for _ in range(3)] for _ in range(2)]
        values["n"] = self.random.choice([0, 1, 2, 5])
        values["z"] = [self.number(INT16) for _ in range(values["n"])]
        values["o"] = self.point()
        values["s"], values["t"] = self.random.choice(TEXTS), self.random.choice(TEXTS)
        values["m"] = self.random.choice([0, 1, 3])
        values["r"] = [self.point() for _ in range(values["m"])]
        return values

    def point(self) -> dict[str, Any]:
        return {"x": self.number(INT32), "y": self.number(FLOAT64), "k": [self.number(INT16) for _ in range(2)]}

    def number(self, type_: Basic) -> Any:
        if self.is_floating(type_):
            extremes = [0.0, -0.0, 1.0, -2.5, 1e30, -1e30, 3e9, 1e19, math.inf, -math.inf, math.nan, 0.1]
            value = self.random.choice([*extremes, self.random.uniform(-100, 100)])
            return ecode.semantics.arithmetic.round_single(value) if type_ == FLOAT32 else value
        low, high = ecode.semantics.arithmetic.limits(type_)
        return self.random.choice([0, 1, low, high, high - 1, low + 1, 3, self.random.randint(low, high)])
