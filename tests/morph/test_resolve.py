"""The receiver's algorithm: perfect matches, chains, branches, cycles, thresholds, ties, and errors."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecode.types import FLOAT64, INT32, INT64, STRING, UINT8, Field, Notes, Record, record
from morph import (
    PAPER,
    Criterion,
    MorphError,
    Policy,
    Rejection,
    Resolution,
    Resolver,
    Transform,
    TransformGraph,
    map_fields,
    maxmatch,
    resolve,
)
from tests.morph.samples import NEW, OLD, TO_OLD, flat, monitors

REV0 = record("channel", [Field("host", STRING)])
REV1 = record("channel", [Field("address", STRING), Field("port", INT32)])
REV2 = record("channel", [Field("contact", STRING), Field("members", INT32), Field("secure", INT32)])


def revisions() -> TransformGraph:
    """Figure 1 of the paper: Rev 2.0 -> 1.0 -> 0.0."""
    return TransformGraph(
        {"rev0": REV0, "rev1": REV1, "rev2": REV2},
        [
            Transform("rev1", "rev0", "{ old.host = new.address; }"),
            Transform("rev2", "rev1", "{ old.address = new.contact; old.port = new.members; }"),
        ],
    )


def resolved(incoming: str, wanted: dict[str, Record], graph: TransformGraph, policy: Policy = PAPER) -> Resolution:
    answer = resolve(incoming, wanted, graph, policy)
    assert isinstance(answer, Resolution), answer.explain()
    return answer


def rejected(incoming: str, wanted: dict[str, Record], graph: TransformGraph, policy: Policy = PAPER) -> Rejection:
    answer = resolve(incoming, wanted, graph, policy)
    assert isinstance(answer, Rejection), answer.explain()
    return answer


def way(answer: Resolution) -> list[str]:
    return [transform.target for transform in answer.route]


def test_an_old_reader_gets_the_new_monitor() -> None:
    answer = resolved("new", {"old": OLD}, monitors())
    assert answer.comparison.is_perfect
    assert way(answer) == ["old"]
    program = monitors().program(answer.route[0])
    new = {
        "number_of_cpus": 4,
        "rqueue_length": [1, 2, 3, 6],
        "total_memory": 100,
        "used_memory": 40,
        "rx_bytes": 7,
        "tx_bytes": 8,
    }
    old = program.run({"new": new}).outputs["old"]
    assert old == {"avg_rqueue_length": 3, "free_memory": 60, "rx_tx_bytes": 15}


def test_a_new_reader_cannot_get_the_old_monitor_by_itself() -> None:
    answer = rejected("old", {"new": NEW}, monitors())
    assert answer.reason == "no wanted type has the name 'MonitoringMsg'; wanted: NewMonitoringMsg"
    assert answer.hint == "the format is called 'MonitoringMsg'; is a wanted type misspelled?"
    nothing = rejected("old", {"new": NEW}, monitors(), Policy(same_name=False))
    assert nothing.reason == ("the nearest wanted type is new with diff 3, Mr 1.00 (6 of 6): Mr over the threshold")


@pytest.mark.parametrize("incoming", ["rev0", "rev1", "rev2"])
@pytest.mark.parametrize("reader", ["rev0", "rev1", "rev2"])
def test_all_nine_pairs_of_three_revisions(incoming: str, reader: str) -> None:
    graph = revisions()
    answer = resolve(incoming, {reader: graph.known(reader)}, graph)
    if incoming >= reader:
        assert isinstance(answer, Resolution)
        assert answer.comparison.is_perfect
        assert way(answer) == [f"rev{n}" for n in reversed(range(int(reader[-1]), int(incoming[-1])))]
    else:
        assert isinstance(answer, Rejection)


def test_a_perfect_match_looks_no_further() -> None:
    graph = revisions()
    graph.add_transform(Transform("rev2", "lost", "{ }"))
    answer = resolved("rev2", {"rev2": REV2}, graph)
    assert (way(answer), answer.problems, len(answer.considered)) == ([], (), 1)


def test_a_transformed_record_wins_over_a_poorer_fit_without() -> None:
    """Mr is 0 both ways, but the incoming record has a field more."""
    graph = TransformGraph({"v1": flat("r", "a"), "v2": flat("r", "ab")}, [Transform("v2", "v1", "{ old.a = new.b; }")])
    assert way(resolved("v2", {"w": flat("r", "a")}, graph)) == ["v1"]


def test_of_several_wanted_types_the_best_one_gets_the_record() -> None:
    wanted = {"few": flat("r", "ab"), "many": flat("r", "abcdz")}
    graph = TransformGraph({"in": flat("r", "abcd")})
    assert resolved("in", wanted, graph).wanted == "few"  # Mr 0 before Mr 1/5, though diff is 2 against 0
    assert resolved("in", wanted, graph, Policy(diff_threshold=1)).wanted == "many"
    answer = rejected("in", wanted, graph, Policy(diff_threshold=1, mismatch_threshold=0.1))
    assert [(c.wanted, c.verdict) for c in answer.considered] == [
        ("few", "diff over the threshold"),
        ("many", "Mr over the threshold"),
    ]


def test_thresholds_include_their_own_value() -> None:
    graph = TransformGraph({"in": flat("r", "ax")})
    wanted = {"w": flat("r", "ab")}
    assert resolved("in", wanted, graph, Policy(mismatch_threshold=0.5, diff_threshold=1))
    assert rejected("in", wanted, graph, Policy(mismatch_threshold=0.49))
    assert rejected("in", wanted, graph, Policy(diff_threshold=0.99))


def test_ties_go_to_the_fewest_transforms_then_to_the_first_keys() -> None:
    a, far, near1, near2 = (record("r", [Field("a", type_)]) for type_ in (FLOAT64, UINT8, INT32, INT64))
    code = "{ old.a = new.a; }"
    graph = TransformGraph(
        {"in": flat("r", "ab"), "far": far, "via": flat("r", "c"), "near2": near2, "near1": near1},
        [Transform("in", "via", "{ old.c = new.a; }"), Transform("via", "far", "{ old.a = new.c; }")]
        + [Transform("in", key, code) for key in ("near2", "near1")],
    )
    answer = resolved("in", {"w2": a, "w1": a}, graph)
    assert (answer.reached, answer.wanted) == ("near1", "w1")
    assert [(c.reached, c.wanted) for c in answer.considered[:5]] == [
        ("near1", "w1"),
        ("near1", "w2"),
        ("near2", "w1"),
        ("near2", "w2"),
        ("far", "w1"),
    ]


def test_of_two_ways_to_a_format_the_first_keys_count() -> None:
    formats = {"in": flat("r", "x"), "a": flat("r", "y"), "b": flat("r", "y"), "out": flat("r", "z")}
    links = [
        Transform("in", "b", "{ old.y = new.x; }"),
        Transform("in", "a", "{ old.y = new.x; }"),
        Transform("b", "out", "{ old.z = new.y; }"),
        Transform("a", "out", "{ old.z = new.y; }"),
    ]
    for order in (links, links[::-1]):
        assert way(resolved("in", {"w": flat("r", "z")}, TransformGraph(formats, order))) == ["a", "out"]


def test_what_is_preferred_can_be_said() -> None:
    """DESIGN decision 4: a projection takes the least Mr, then the fewest transforms."""
    graph = TransformGraph({"v1": flat("r", "a"), "v2": flat("r", "ab")}, [Transform("v2", "v1", "{ old.a = new.b; }")])
    policy = Policy(prefer=(Criterion.MISMATCH_RATIO, Criterion.HOPS))
    assert way(resolved("v2", {"w": flat("r", "a")}, graph, policy)) == []


def test_weights_decide() -> None:
    graph = TransformGraph({"in": flat("r", "ab")})
    wanted = {"has a": flat("r", "acd"), "has b": flat("r", "bcd")}
    generous = Policy(mismatch_threshold=1, field_weights=(("b", 5),))
    assert resolved("in", wanted, graph, Policy(mismatch_threshold=1)).wanted == "has a"
    answer = resolved("in", wanted, graph, generous)
    assert (answer.wanted, answer.comparison.mismatch_ratio) == ("has b", 2 / 7)


def test_missing_fields_get_their_defaults_and_the_rest_is_null() -> None:
    wanted = record(
        "r", [Field("a", INT32), Field("b", FLOAT64, Notes(default=1.5)), Field("c", STRING), Field("d", INT32)]
    )
    answer = resolved("in", {"w": wanted}, TransformGraph({"in": flat("r", "adz")}))
    assert [str(source) for source in answer.fields[0].fields] == ["a <- a", "b <- 1.5", "c <- null", "d <- d"]
    assert answer.fields == map_fields(flat("r", "adz"), wanted)
    assert answer.explain().splitlines()[-3:] == ["  by default: b = 1.5", "  null: c", "  not wanted: z"]


def test_cycles_are_fine() -> None:
    a, b, c = (flat("r", letter) for letter in "abc")
    graph = TransformGraph(
        {"a": a, "b": b, "c": c},
        [
            Transform("a", "b", "{ old.b = new.a; }"),
            Transform("b", "c", "{ old.c = new.b; }"),
            Transform("c", "a", "{ old.a = new.c; }"),
            Transform("a", "a", "{ old.a = new.a; }"),
        ],
    )
    assert way(resolved("a", {"w": c}, graph)) == ["b", "c"]
    assert way(resolved("c", {"w": b}, graph)) == ["a", "b"]
    assert rejected("a", {"w": flat("r", "x")}, graph).passed_over == 0


def test_a_missing_body_is_reported_and_another_route_is_taken() -> None:
    graph = TransformGraph({"in": flat("r", "x"), "via": flat("r", "y"), "out": flat("r", "z")})
    graph.add_transform(Transform("in", "lost", "{ old.z = new.x; }"))
    graph.add_transform(Transform("lost", "out", "{ old.z = new.z; }"))
    assert rejected("in", {"w": flat("r", "z")}, graph).problems[0].code == "MORPH_MISSING_BODY"
    graph.add_transform(Transform("in", "via", "{ old.y = new.x; }"))
    graph.add_transform(Transform("via", "out", "{ old.z = new.y; }"))
    answer = resolved("in", {"w": flat("r", "z")}, graph)
    assert way(answer) == ["via", "out"]
    assert [str(p) for p in answer.problems] == [
        "[MORPH_MISSING_BODY] lost: its description is missing; transforms lead to it from in"
    ]


def test_a_format_that_is_not_described_is_rejected() -> None:
    answer = rejected("lost", {"w": OLD}, monitors())
    assert answer.explain().splitlines()[0] == "lost is rejected: the description of the format is missing"


def test_a_wrong_program_is_reported_and_the_next_best_route_is_taken() -> None:
    graph = TransformGraph(
        {"in": flat("r", "axy"), "best": flat("r", "ab"), "good": flat("r", "abz")},
        [
            Transform("in", "best", "{ old.b = new.nowhere; }"),
            Transform("in", "good", "{ old.a = new.a; old.b = new.x; }"),
        ],
    )
    answer = resolved("in", {"w": flat("r", "ab")}, graph)
    assert way(answer) == ["good"]
    (problem,) = answer.problems
    assert (problem.code, problem.at) == ("MORPH_BAD_TRANSFORM", "in -> best")
    assert "nowhere" in problem.reason
    assert problem in graph.problems


def test_without_another_way_a_wrong_program_leaves_the_record_as_it_is() -> None:
    graph = TransformGraph({"in": flat("r", "ax"), "best": flat("r", "ab")}, [Transform("in", "best", "{ ! }")])
    answer = resolved("in", {"w": flat("r", "ab")}, graph)
    assert (way(answer), answer.comparison.mismatch_ratio) == ([], 0.5)


def test_of_two_transforms_that_disagree_the_first_counts() -> None:
    graph = monitors()
    graph.add_transform(Transform("new", "old", TO_OLD))
    assert graph.problems == ()
    graph.add_transform(Transform("new", "old", "{ old.free_memory = 1; }"))
    answer = resolved("new", {"old": OLD}, graph)
    assert answer.route[0].ecode == TO_OLD
    assert [problem.code for problem in answer.problems] == ["MORPH_TRANSFORMS_DISAGREE"]


def test_what_is_too_far_is_told() -> None:
    answer = rejected("rev2", {"rev0": REV0}, revisions(), Policy(max_hops=1))
    (problem,) = answer.problems
    assert str(problem) == "[MORPH_MAX_HOPS] rev0: the format is more than 1 transforms away"
    assert resolved("rev2", {"rev0": REV0}, revisions(), Policy(max_hops=2)).problems == ()
    assert rejected("rev2", {"rev0": REV0}, revisions(), Policy(max_hops=0)).problems[0].at == "rev1"


def test_a_transform_that_costs_too_much_is_not_taken() -> None:
    cheap, dear = "{ old.y = new.x; }", "{ int i; for (i = 0; i < new.x; i++) old.y += i; }"
    endless = "{ int i; for (i = 0; i < 10; i = i * 2) old.y += i; }"

    def graph(first: str) -> TransformGraph:
        formats = {"in": flat("r", "x"), "a": flat("r", "y"), "b": flat("r", "yz")}
        return TransformGraph(formats, [Transform("in", "a", first), Transform("in", "b", cheap)])

    limited = Policy(max_cost=50)
    assert way(resolved("in", {"w": flat("r", "y")}, graph(cheap), limited)) == ["a"]
    for first in (dear, endless):
        assert way(resolved("in", {"w": flat("r", "y")}, graph(first))) == ["a"]
        answer = resolved("in", {"w": flat("r", "y")}, graph(first), limited)
        assert way(answer) == ["b"]
        assert [(problem.code, problem.at) for problem in answer.problems] == [("MORPH_TOO_COSTLY", "in -> a")]


def test_what_a_transform_never_writes_is_told() -> None:
    """The record types match perfectly, and yet a field has no value."""
    graph = TransformGraph(
        {"in": flat("r", "x"), "out": flat("r", "yz")}, [Transform("in", "out", "{ old.y = new.x; }")]
    )
    answer = resolved("in", {"w": flat("r", "yz")}, graph)
    assert (answer.comparison.is_perfect, answer.unwritten) == (True, ("z",))
    assert answer.explain().splitlines()[-1] == "  null, because no transform writes it: z"
    assert resolved("new", {"old": OLD}, monitors()).unwritten == ()


def test_what_can_be_reached_is_not_too_far() -> None:
    formats = {"a": flat("r", "a"), "b": flat("r", "b")}
    round_trip = [Transform("a", "b", "{ old.b = new.a; }"), Transform("b", "a", "{ old.a = new.b; }")]
    assert rejected("a", {"w": flat("r", "z")}, TransformGraph(formats, round_trip), Policy(max_hops=1)).problems == ()


def test_nothing_wanted_is_a_rejection() -> None:
    assert rejected("old", {}, monitors()).reason == "no wanted type has the name 'MonitoringMsg'; wanted: nothing"


def test_an_explanation_for_people() -> None:
    assert resolve("new", {"mine": OLD}, monitors()).explain() == (
        "NewMonitoringMsg new reaches mine through old: a perfect match\n"
        "     wanted  from  transforms  diff  Mr\n"
        "  *  mine    old   1           0     0.00  perfect"
    )
    page = resolve("new", {"<b>": OLD}, monitors())._repr_html_()
    assert "<td>&lt;b&gt;</td>" in page
    assert "<b>" not in page


def test_a_thousand_versions_and_a_hundred_readers() -> None:
    """Ten fields each, shifted by one from version to version; a reader at every tenth is five fields off at most."""
    versions = {f"{i:04}": record("r", [Field(f"f{j}", INT32) for j in range(i, i + 10)]) for i in range(1000)}
    wanted = {f"w{i:03}": record("r", [Field(f"f{j}", INT32) for j in range(i, i + 10)]) for i in range(5, 1000, 10)}
    resolver = Resolver(wanted, TransformGraph(versions))
    answers = [resolver.resolve(key) for key in versions]
    assert all(isinstance(answer, Resolution) for answer in answers)
    assert [a.wanted for a in answers[:12] if isinstance(a, Resolution)] == [*["w005"] * 11, "w015"]
    assert all(len(answer.considered) + answer.passed_over == 100 for answer in answers)
    assert "and 92 more, none of them better" in answers[0].explain()


def test_a_long_chain() -> None:
    versions = {f"v{i:03}": record("r", [Field(f"a{i}", INT32)]) for i in range(200)}
    transforms = [
        Transform(f"v{i:03}", f"v{i - 1:03}", f"{{ old.a{i - 1} = new.a{i}; }}") for i in range(1, len(versions))
    ]
    graph = TransformGraph(versions, transforms)
    assert len(resolved("v199", {"w": versions["v000"]}, graph, Policy(max_hops=199)).route) == 199


# -- properties

LETTERS = st.text(st.sampled_from("abcdef"), max_size=5).map(lambda text: flat("r", "".join(sorted(set(text)))))


@given(st.dictionaries(st.text("xyz", min_size=1, max_size=2), LETTERS, max_size=5), st.data())
def test_the_order_of_candidates_never_matters(formats: dict[str, Record], data: st.DataObject) -> None:
    wanted = data.draw(st.dictionaries(st.text("uvw", min_size=1, max_size=2), LETTERS, max_size=4))
    pairs = [(a, b) for a in formats for b in formats]
    links = data.draw(st.lists(st.sampled_from(pairs), max_size=8, unique=True)) if pairs else []
    transforms = [Transform(a, b, "{ }") for a, b in links]

    def answers(order: Sequence[str], links: list[Transform], names: Sequence[str]) -> list[Resolution | Rejection]:
        graph = TransformGraph({key: formats[key] for key in order}, links)
        readers = {name: wanted[name] for name in names}
        return [resolve(key, readers, graph) for key in sorted(formats)]

    def shuffled(items: Sequence[str]) -> list[str]:
        return data.draw(st.permutations(list(items)))

    first = answers(list(formats), transforms, list(wanted))
    assert answers(shuffled(list(formats)), transforms[::-1], shuffled(list(wanted))) == first
    for answer in first:
        assert pickle.loads(pickle.dumps(answer)) == answer
        assert answer.explain()
    best = maxmatch(formats, wanted)
    assert best == maxmatch(dict(reversed(formats.items())), dict(reversed(wanted.items())))


def test_an_unknown_format_is_an_error_where_it_is_asked_for_by_name() -> None:
    with pytest.raises(MorphError, match="did you mean 'new'") as caught:
        monitors().known("newer")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
