"""Random programs and events at the ends of their types, through both engines, the compiled one in guarded memory
(`tests.guarded.memory`): `python -m tests.ecode.engines.guarded.programs SEED PROGRAMS EVENTS`.

Prints a line for each program before it runs, so that the last one is to blame where the process ends.
"""

from __future__ import annotations

import sys
from random import Random
from typing import Any

import ecode
from ecode.types import FLOAT32, FLOAT64, Basic
from tests.ecode.engines import programs
from tests.ecode.engines.test_engines import INCLUDE, compiled, interpreted
from tests.guarded.memory import Guards, guarded_kernels

ENDS = [
    "9223372036854775807L", "(-9223372036854775807L - 1)", "18446744073709551615ul", "9223372036854775808ul",
    "2147483647", "(-2147483647 - 1)", "2147483648L", "4294967295u", "4611686018427387904L", "2305843009213693952L",
    "127", "(-128)", "32767", "(char)128", "(short)32768",
]  # fmt: skip


class Extreme(programs.Maker):
    """Programs whose numbers lie at the ends, with indices, sizes, pointers and counters made of them."""

    def __init__(self, random: Random) -> None:
        super().__init__(random, is_c=False)

    def integer_leaf(self) -> str:
        return self.random.choice(ENDS) if self.random.random() < 0.3 else super().integer_leaf()

    def statement(self) -> str:
        if self.depth < 3 and self.random.random() < 0.35:
            return self.far()
        return super().statement()

    def index(self) -> str:
        """Mostly what an overflow would make of two large numbers, or what is right."""
        one, other = self.integer(1), self.integer(1)
        return self.random.choice(
            [
                f"({one} & 0x7fffffffffffffff) + ({other} & 0x7fffffffffffffff)",
                f"({one}) * ({other})",
                f"{one} - {other}",
                f"-({one})",
                f"({one}) << ({other})",
                f"({one}) & 3",
                "input.g + input.g",
                "input.n - 1",
                "0",
                "1",
            ]
        )

    def far(self) -> str:
        index, other, value = self.index(), self.index(), self.integer(1)
        size = self.random.choice([index, self.integer(1), "2", "5", "input.n"])
        counter, low, high = self.name(), self.random.choice(ENDS), self.random.choice([*ENDS, self.integer(1)])
        type_ = self.random.choice(["int", "long", "short", "unsigned long", "unsigned char"])
        head = self.random.choice(
            [
                f"{counter} = {low}; {counter} < {high}; {counter}++",
                f"{counter} = {low}; {counter} <= {high}; {counter} = {counter} + 1",
                f"{counter} = {low}; {counter} > {high}; {counter}--",
                f"{counter} = {low}; {high} <= {counter}; --{counter}",
                f"{counter} = 0; {counter} < {high}; {counter}++",
            ]
        )
        leave = self.random.choice(["break", "break", "return 3", "continue"])
        return self.random.choice(
            [
                f"output.e = input.v[{index}];",
                f"output.v[{index}] = {value};",
                f"output.q = input.w[{index}][{other}];",
                f"output.n = {size}; output.z[{index}] = {value}; output.y[{other}] = {value};",
                f"output.m = {size}; output.r[{index}].x = {value}; output.r[{other}].k[{index}] = {value};",
                f"output.e = input.r[{index}].k[{other}];",
                f"output.c = input.z[{index}];",
                f"{{ int a[4]; int b[4]; a[2] = 7; b[{index}] = {value}; output.e = a[2]; }}",
                f"{{ int *p = &input.v[1]; p = p + ({index}); output.e = *p; }}",
                f"{{ int *p = &output.v[2]; p -= {index}; p[{other}] = {value}; }}",
                f"{{ Point a[3]; Point *p = a; p += {index}; p->k[{other}] = 1; output.o = *p; }}",
                f"{{ short *p = output.z; p += {index}; output.g = p[{other}]; }}",
                f"output.e = input.s[{index}];",
                f"{{ {type_} {counter}; int k = 0; for ({head}) {{ if (++k > 6) {leave}; output.v[k & 3] += {counter}; "
                f"output.e += input.v[{counter} & 3]; }} output.g = {counter}; }}",
                f"{{ {type_} {counter}; for ({head}) output.v[{counter}] = {counter}; output.g = {counter}; }}",
                f"{{ {type_} {counter}; int k = 0; for ({head}) {{ if (k++ > 4) break; output.z[{counter}] += 1; }} }}",
                f"output.g = {index}; output.h = {other}; output.a = {index};",
            ]
        )

    def event(self) -> dict[str, Any]:
        values = super().event()
        if self.random.random() < 0.5:
            values["g"], values["h"] = 2**63 - 1 - self.random.randrange(8), 2**64 - 1 - self.random.randrange(8)
        return values

    def number(self, type_: Basic) -> Any:
        if type_ in (FLOAT32, FLOAT64) or self.random.random() < 0.4:
            return super().number(type_)
        low, high = ecode.semantics.arithmetic.limits(type_)
        by = self.random.randrange(4)
        return self.random.choice([low + by, high - by, by])


def main(seed: int, count: int, events: int) -> None:
    guards = Guards()
    done = refused = trapped = 0
    for number in range(seed, seed + count):
        maker = Extreme(Random(number))
        source = INCLUDE + maker.program()
        print(number, flush=True)
        program = ecode.compile(source, programs.PARAMS, limits=ecode.Limits(budget=500))
        given = [maker.event() for _ in range(events)]
        expected, statics = interpreted(program, given)
        try:
            with guarded_kernels(guards):
                found = compiled(program, given)
        except ecode.NotCompilable:
            refused += 1
            continue
        finally:
            guards.take_back()
        for i, (ours, theirs) in enumerate(zip(found[0], expected, strict=True)):
            assert ours == theirs, f"{number}: {source}\nevent {i}: {given[i]}\ncompiled {ours}\ninterpreted {theirs}"
        assert found[1] == statics, f"{number}: {source}\nstatics"
        done += len(given)
        trapped += sum(isinstance(outcome, str) for outcome in expected)
    print(f"{done} pairs agree, {trapped} trap, {refused} programs not compilable")
    assert refused <= count // 2
    assert 0 < trapped < done


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
