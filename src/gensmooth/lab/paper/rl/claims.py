"""The paper's claims about reinforcement learning, sentence by sentence.

Most sentences say that some methods are above others in some settings. They are in the table
``_PLAIN``. The others have functions of their own.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, product
from typing import NamedTuple

from gensmooth.directions import METHODS
from gensmooth.lab.experiments.verdicts import (
    AnyOf,
    Case,
    How,
    Measure,
    Sample,
    Scores,
    Sentence,
    alike,
    better,
    readings,
    together,
)
from gensmooth.lab.paper import tables as paper
from gensmooth.lab.paper.rl.scores import WORDS, Kind
from gensmooth.lab.paper.rl.settings import ENVIRONMENTS, PAPER, Setting
from gensmooth.lab.report.tables import Cell, ClaimRow

Pairs = Sequence[tuple[str, str]]

_RL, _ABLATIONS = "Section 5.2, fig:rl", "Section 5.3, fig:rlablations"
_MORE, _DISCUSSION = "Appendix C.2, fig:rl2", "Section 5.5"
_MARGIN = 0.1  # of the range: what "competitive" and "similar" allow, "a large margin" asks for
_SHRUNK = ("gs-shrinkage", "bes-shrinkage")
_OURS = ("bes", *_SHRUNK)
_RIVALS = ("orthogonal-es", "guided-es")
_LOCOMOTION = ("Ant", "Walker2d", "HalfCheetahRandVel")
_ALL = [setting for setting in PAPER if setting.part == "main"]
_FIGURE = [s for s in _ALL if s.environment in (*_LOCOMOTION, "ML1-Reach")]
_MLP, _ANTITHETIC = Setting("Ant", 20, "mlp"), Setting("Ant", 20, "antithetic")

# With the antithetic estimator, the paper's learning rate of BeS-shrinkage is a likely misprint.
_AS_PRINTED = "with the learning rates as printed"
_WITHOUT = "without BeS-shrinkage, whose rate is 100 times that of others with its spacing"


def _at(environment: str, *numbers: int) -> list[Setting]:
    return [Setting(environment, number) for number in numbers or paper.RL_DIRECTIONS]


def _against_rest(*named: str) -> Pairs:
    """Each of some methods against each of the others."""
    return list(product(named, [name for name in paper.METHODS if name not in named]))


class Plain(NamedTuple):
    """The sentence that, in some settings, the first of each pair is above the second.

    Attributes:
        name: A short name.
        place: Where the paper says it.
        claim: What it says, in our words.
        kind: The number that is compared.
        settings: The settings in which it is compared.
        pairs: The pairs of methods.
        how: In how many cases the first must be above.
        by: How far above, as a fraction of the range; negative for "competitive".
        also: Other readings of the sentence, or other measures of the same thing. If their verdicts
            differ, the sentence depends on the reading.
        apart: Whether each setting is judged by itself, because the sentence names none.
    """

    name: str
    place: str
    claim: str
    kind: Kind
    settings: Sequence[Setting]
    pairs: Pairs
    how: How = "all"
    by: float | None = None
    also: Sequence[Kind] = ()
    apart: bool = False


_PLAIN = (
    Plain(
        "rl-bes-faster", _RL,
        "In the majority of cases BeS learns more quickly than GS.",
        "speed", _FIGURE, [("bes", "gs")], "most", also=("rounds",),
    ),
    Plain(
        "rl-bes-higher", _RL,
        "In the majority of cases BeS ends higher than GS.",
        "end", _FIGURE, [("bes", "gs")], "most",
    ),
    Plain(
        "rl-bes-never-behind", "Section 4.2",
        "BeS is always at least competitive with GS.",
        "end", _ALL, [("bes", "gs")], by=-_MARGIN,
    ),
    Plain(
        "rl-shrinkage-locomotion", _RL,
        "In the three locomotion environments, GS-shrinkage and BeS-shrinkage usually improve on "
        "BeS.",
        "end", [s for name in _LOCOMOTION for s in _at(name)],
        list(product(_SHRUNK, ("bes",))), "often",
    ),
    Plain(
        "rl-ant-shrinkage", _RL,
        "On Ant, GS-shrinkage and BeS-shrinkage are above all others but Guided ES, by a large "
        "margin.",
        "end", _at("Ant"), list(product(_SHRUNK, ("gs", "bes", "orthogonal-es"))), by=_MARGIN,
        also=("end_median",),  # on Ant, single tests of the shrinkage methods collapse by thousands
    ),
    Plain(
        "rl-ant-unstable", _RL,
        "On Ant, GS-shrinkage and BeS-shrinkage learn with some instability (more often than not "
        "they jump more from round to round than GS, BeS and Orthogonal ES).",
        "jumps", _at("Ant"), list(product(_SHRUNK, ("gs", "bes", "orthogonal-es"))), "often",
    ),
    Plain(
        "rl-ant-guided-two", _RL,
        "On Ant with L = 2, GS-shrinkage and BeS-shrinkage are competitive with Guided ES.",
        "end", _at("Ant", 2), list(product(_SHRUNK, ("guided-es",))), by=-_MARGIN,
        also=("end_median",),
    ),
    Plain(
        "rl-ant-guided-six", _RL,
        "On Ant with L = 6, GS-shrinkage and BeS-shrinkage are above Guided ES at the beginning.",
        "beginning", _at("Ant", 6), list(product(_SHRUNK, ("guided-es",))),
    ),
    Plain(
        "rl-ant-guided-twenty", _RL,
        "On Ant with L = 20, GS-shrinkage and BeS-shrinkage are above Guided ES. (“(At the "
        "beginning of optimization)” may speak of L = 20 too, or of L = 6 alone.)",
        "end", _at("Ant", 20), list(product(_SHRUNK, ("guided-es",))),
        also=("end_median", "beginning"),
    ),
    Plain(
        "rl-walker-two", _RL,
        "On Walker2d with L = 2, BeS-shrinkage and Guided ES are above all others.",
        "end", _at("Walker2d", 2), _against_rest("bes-shrinkage", "guided-es"),
    ),
    Plain(
        "rl-walker-six", _RL,
        "On Walker2d with L = 6, BeS-shrinkage, GS-shrinkage and Orthogonal ES are slightly above "
        "the others.",
        "end", _at("Walker2d", 6), _against_rest(*_SHRUNK, "orthogonal-es"),
    ),
    Plain(
        "rl-walker-twenty-early", _RL,
        "On Walker2d with L = 20, BeS is the best at the beginning.",
        "beginning", _at("Walker2d", 20), _against_rest("bes"),
    ),
    Plain(
        "rl-walker-twenty-late", _RL,
        "On Walker2d with L = 20, Orthogonal ES is the best at the end.",
        "end", _at("Walker2d", 20), _against_rest("orthogonal-es"),
    ),
    Plain(
        "rl-cheetah-fastest", _RL,
        "On HalfCheetahRandVel, BeS-shrinkage and GS-shrinkage learn the fastest.",
        "speed", _at("HalfCheetahRandVel"), _against_rest(*_SHRUNK), also=("rounds",),
        apart=True,
    ),
    Plain(
        "rl-cheetah-caught-up", _RL,
        "On HalfCheetahRandVel with L = 6 and L = 20, the others have caught up with GS-shrinkage "
        "and BeS-shrinkage at the end.",
        "end", _at("HalfCheetahRandVel", 6, 20),
        [(other, shrunk) for shrunk, other in _against_rest(*_SHRUNK)], by=-_MARGIN,
    ),
    Plain(
        "rl-cheetah-two", "Not in the paper: what naming L = 6 and L = 20 suggests",
        "On HalfCheetahRandVel with L = 2, the others have not caught up.",
        "end", _at("HalfCheetahRandVel", 2), _against_rest(*_SHRUNK),
    ),
    Plain(
        "rl-reach-orthogonal", _RL,
        "On ML1-Reach, Orthogonal ES is the best.",
        "end", _at("ML1-Reach"), _against_rest("orthogonal-es"),
    ),
    Plain(
        "rl-reach-bes", _RL,
        "On ML1-Reach, BeS follows: it is above GS-shrinkage, BeS-shrinkage and Guided ES.",
        "end", _at("ML1-Reach"), list(product(("bes",), (*_SHRUNK, "guided-es"))),
    ),
    Plain(
        "rl-reach-gs", _RL,
        "On ML1-Reach with L = 2 and 6, GS too is above GS-shrinkage, BeS-shrinkage and Guided ES.",
        "end", _at("ML1-Reach", 2, 6), list(product(("gs",), (*_SHRUNK, "guided-es"))),
    ),
    Plain(
        "rl-shrinkage-not-always", _DISCUSSION,
        "GS-shrinkage and BeS-shrinkage are not always above GS and BeS: somewhere one is below.",
        "end", _ALL, list(product(("gs", "bes"), _SHRUNK)), "some",
    ),
    Plain(
        "rl-mlp-shrinkage", _ABLATIONS,
        "With an MLP policy, GS-shrinkage and BeS-shrinkage are above all others.",
        "end", [_MLP], _against_rest(*_SHRUNK),
    ),
    Plain(
        "rl-mlp-faster", _ABLATIONS,
        "With an MLP policy, BeS-shrinkage learns faster than GS-shrinkage.",
        "speed", [_MLP], [("bes-shrinkage", "gs-shrinkage")], also=("rounds",),
    ),
    Plain(
        "rl-mlp-guided-behind", _ABLATIONS,
        "With an MLP policy, Guided ES falls behind GS, BeS and Orthogonal ES.",
        "speed", [_MLP], list(product(("gs", "bes", "orthogonal-es"), ("guided-es",))),
        also=("rounds",),
    ),
    Plain(
        "rl-antithetic-early", _ABLATIONS,
        "With the antithetic estimator, Guided ES is the best at the beginning.",
        "beginning", [_ANTITHETIC], _against_rest("guided-es"),
    ),
    Plain(
        "rl-hopper-six", _MORE,
        "On Hopper with L = 6, Guided ES is the best.",
        "end", _at("Hopper", 6), _against_rest("guided-es"),
    ),
    Plain(
        "rl-additional-gs", _MORE,
        "On Hopper and ML1-Push with L = 2 and L = 20, GS is above all others.",
        "end", [*_at("Hopper", 2, 20), *_at("ML1-Push", 2, 20)], _against_rest("gs"),
    ),
)  # fmt: skip


def judge(scores: Scores, cells: Sequence[Cell]) -> list[ClaimRow]:  # noqa: ARG001
    """Judge every sentence on complete cells; "not run" if there are too few."""
    rows = [_plain(scores, plain) for plain in _PLAIN]
    rows += [_fewer(scores), _depends(scores), *_best_of_ours(scores)]
    rows += [*_within_ablations(scores), _antithetic_late(scores)]
    rows += [_mlp_remains(scores), _push(scores)]
    return [_with_start(row) if row.id.startswith("rl-mlp-") else row for row in rows]


def _with_start(row: ClaimRow) -> ClaimRow:
    """Qualify a verdict on networks, whose initial weights the paper does not specify."""
    if row.verdict != "does not hold":
        return row
    evidence = (
        "does not hold for networks that start by doing nothing. Their start is our choice: the "
        f"paper names none, and its learning rates were not chosen for ours. {row.evidence}"
    )
    return row._replace(evidence=evidence, verdict="depends on the reading")


def _measure(what: str) -> Measure:
    return Measure(what, better="higher", ratio=False, unit="of the environment's range")


def _measure_of(kind: Kind) -> Measure:
    return Measure(WORDS[kind]) if kind == "rounds" else _measure(WORDS[kind])


def _sample(scores: Scores, setting: Setting, method: str, kind: Kind) -> Sample:
    """Return one number per seed: rounds, or a return as a fraction of the environment's range."""
    sample = scores.sample(
        kind,
        environment=setting.environment,
        num_directions=setting.num_directions,
        part=setting.part,
        method=method,
    )
    if kind == "rounds":
        return sample
    known = ENVIRONMENTS[setting.environment]
    return None if sample is None else [v / (known.learned - known.still) for v in sample]


def _plain(scores: Scores, plain: Plain) -> ClaimRow:
    sentence = Sentence(plain.name, plain.place, plain.claim)

    def judged(kind: Kind, settings: Sequence[Setting] = plain.settings) -> ClaimRow:
        cases = _cases(scores, kind, settings, plain.pairs)
        return better(sentence, cases, _measure_of(kind), how=plain.how, by=plain.by)

    kinds = (plain.kind, *plain.also)
    if plain.apart:
        places = product(plain.settings, kinds)
        return readings(sentence, {f"{s.words}, {WORDS[k]}": judged(k, [s]) for s, k in places})
    if not plain.also:
        return judged(plain.kind)
    return readings(sentence, {WORDS[kind]: judged(kind) for kind in kinds})


def _cases(scores: Scores, kind: Kind, settings: Iterable[Setting], pairs: Pairs) -> list[Case]:
    return [
        Case(
            f"{METHODS[a].title} vs {METHODS[b].title} ({setting.words})",
            _sample(scores, setting, a, kind),
            _sample(scores, setting, b, kind),
        )
        for setting, (a, b) in product(settings, pairs)
    ]


def _fewer(scores: Scores) -> ClaimRow:
    """Compare the gain of shrinkage over BeS at few directions with the gain at many."""

    def gain(setting: Setting, method: str) -> Sample:
        a, b = (_sample(scores, setting, name, "end") for name in (method, "bes"))
        return None if a is None or b is None else [x - y for x, y in zip(a, b, strict=True)]

    return better(
        Sentence(
            "rl-shrinkage-few",
            _RL,
            "GS-shrinkage and BeS-shrinkage improve on BeS in particular with few trajectories "
            "per iteration: more at L = 2 than at L = 20.",
        ),
        [
            Case(
                f"{METHODS[method].title} ({environment})",
                gain(Setting(environment, 2), method),
                gain(Setting(environment, 20), method),
            )
            for environment, method in product(_LOCOMOTION, _SHRUNK)
        ],
        _measure(f"{WORDS['end']}, difference to BeS at L = 2 against that at L = 20"),
        how="often",
    )


def _depends(scores: Scores) -> ClaimRow:
    """Judge whether each of the two shrinkage methods is above the other somewhere."""
    settings = [setting for name in _LOCOMOTION for setting in _at(name)]
    measure = _measure(WORDS["end"])

    def somewhere(a: str, b: str) -> ClaimRow:
        return better(
            Sentence("", "", ""), _cases(scores, "end", settings, [(a, b)]), measure, how="some"
        )

    return together(
        Sentence(
            "rl-shrinkage-depends",
            "Section 1",
            "In the locomotion environments it depends on the environment and the budget which of "
            "GS-shrinkage and BeS-shrinkage is better: somewhere the one, somewhere the other.",
        ),
        {
            "GS-shrinkage above BeS-shrinkage somewhere": somewhere(*_SHRUNK),
            "BeS-shrinkage above GS-shrinkage somewhere": somewhere(*reversed(_SHRUNK)),
        },
    )


def _best_of_ours(scores: Scores) -> list[ClaimRow]:
    """Sentences about the paper's three methods as a set: one of them suffices."""
    measure = _measure(WORDS["end"])
    three = "The best of BeS, GS-shrinkage and BeS-shrinkage is"
    but_reach = [setting for setting in _FIGURE if setting.environment != "ML1-Reach"]
    return [
        better(
            Sentence("rl-ours-gs", _DISCUSSION, f"{three} often above GS."),
            _any_of_ours(scores, _ALL, ("gs",)),
            measure,
            how="often",
        ),
        better(
            Sentence(
                "rl-ours-competitive",
                _RL,
                f"{three} at least competitive with Orthogonal ES and Guided ES, ML1-Reach apart.",
            ),
            _any_of_ours(scores, but_reach, _RIVALS),
            measure,
            by=-_MARGIN,
        ),
        better(
            Sentence(
                "rl-ours-outperform",
                _DISCUSSION,
                f"{three} often above Orthogonal ES and Guided ES.",
            ),
            _any_of_ours(scores, _ALL, _RIVALS),
            measure,
            how="often",
        ),
    ]


def _any_of_ours(scores: Scores, settings: Iterable[Setting], rivals: Iterable[str]) -> list[AnyOf]:
    return [
        AnyOf(_cases(scores, "end", [setting], [(ours, rival) for ours in _OURS]))
        for setting, rival in product(settings, rivals)
    ]


def _within_ablations(scores: Scores) -> list[ClaimRow]:
    """Sentences that compare a method with itself."""
    plain = ("gs", "bes", "orthogonal-es")
    main = Setting("Ant", 20)

    def cases(methods: Iterable[str], *sides: tuple[Setting, Kind]) -> list[Case]:
        (a, kind_a), (b, kind_b) = sides
        return [
            Case(
                METHODS[name].title,
                _sample(scores, a, name, kind_a),
                _sample(scores, b, name, kind_b),
            )
            for name in methods
        ]

    return [
        _deteriorate(lambda kind: cases(plain, (_MLP, kind), (_MLP, "end"))),
        *_momentum(scores),
        _improves(lambda methods: cases(methods, (_ANTITHETIC, "end"), (main, "end"))),
        better(
            Sentence(
                "rl-antithetic-learn",
                _ABLATIONS,
                "With the antithetic estimator, GS, BeS and Orthogonal ES are able to learn: they "
                "end higher than they begin.",
            ),
            cases(plain, (_ANTITHETIC, "end"), (_ANTITHETIC, "beginning")),
            _measure("mean test return over the last tenth of the rounds against the first tenth"),
        ),
    ]


def _deteriorate(cases: Callable[[Kind], list[Case]]) -> ClaimRow:
    """Compare fixed windows in the middle with the end: the first rounds contain the climb."""
    sentence = Sentence(
        "rl-mlp-deteriorate",
        _ABLATIONS,
        "With an MLP policy, GS, BeS and Orthogonal ES start out strong but deteriorate: they were "
        "higher in the middle than at the end.",
    )
    windows: tuple[Kind, ...] = ("second_fifth", "third_fifth")
    return readings(
        sentence,
        {
            WORDS[kind]: better(sentence, cases(kind), _measure(f"{WORDS[kind]} against the end"))
            for kind in windows
        },
    )


def _antithetic_late(scores: Scores) -> ClaimRow:
    """Judge both methods, and BeS without BeS-shrinkage, whose printed rate looks misprinted."""
    sentence = Sentence(
        "rl-antithetic-late",
        _ABLATIONS,
        "With the antithetic estimator, BeS-shrinkage and BeS are the best at the end.",
    )
    pairs = {
        _AS_PRINTED: _against_rest("bes-shrinkage", "bes"),
        _WITHOUT: [pair for pair in _against_rest("bes") if "bes-shrinkage" not in pair],
    }
    return readings(
        sentence,
        {
            words: better(sentence, _cases(scores, "end", [_ANTITHETIC], p), _measure(WORDS["end"]))
            for words, p in pairs.items()
        },
    )


def _improves(cases: Callable[[Sequence[str]], list[Case]]) -> ClaimRow:
    """Judge all methods, and all but the one whose printed learning rate is a likely misprint."""
    sentence = Sentence(
        "rl-antithetic-improves", _ABLATIONS, "The antithetic estimator improves all methods."
    )
    methods = {
        _AS_PRINTED: paper.METHODS,
        _WITHOUT: [name for name in paper.METHODS if name != "bes-shrinkage"],
    }
    measure = _measure(f"{WORDS['end']}, antithetic against forward difference")
    return readings(
        sentence, {words: better(sentence, cases(m), measure) for words, m in methods.items()}
    )


def _momentum(scores: Scores) -> list[ClaimRow]:
    """Compare the jumps of runs with momentum with those of runs without it."""
    sentence = Sentence(
        "rl-ant-momentum",
        _RL,
        "On Ant, momentum may reduce the instability of GS-shrinkage and BeS-shrinkage.",
    )

    cases = [
        Case(
            f"{METHODS[method].title} ({setting.words})",
            _sample(scores, setting._replace(part="momentum"), method, "jumps"),
            _sample(scores, setting, method, "jumps"),
        )
        for setting, method in product(_at("Ant"), _SHRUNK)
    ]
    return [better(sentence, cases, Measure(WORDS["jumps"]))]


def _mlp_remains(scores: Scores) -> ClaimRow:
    """Judge whether the conclusions of the linear policies remain with the MLP."""
    measure = _measure(WORDS["end"])

    def above(pairs: Pairs) -> ClaimRow:
        return better(Sentence("", "", ""), _cases(scores, "end", [_MLP], pairs), measure)

    return together(
        Sentence(
            "rl-mlp-remains",
            "Section 1",
            "The conclusions remain when a neural network replaces the linear policy: BeS above "
            "GS, the shrinkage methods above BeS, the best of ours at least competitive with "
            "Orthogonal ES and Guided ES.",
        ),
        {
            "BeS above GS": above([("bes", "gs")]),
            "the shrinkage methods above BeS": above(list(product(_SHRUNK, ("bes",)))),
            "the best of the three competitive": better(
                Sentence("", "", ""), _any_of_ours(scores, [_MLP], _RIVALS), measure, by=-_MARGIN
            ),
        },
    )


def _push(scores: Scores) -> ClaimRow:
    return alike(
        Sentence(
            "rl-push-six",
            _MORE,
            "On ML1-Push with L = 6, BeS, GS-shrinkage, BeS-shrinkage and Orthogonal ES perform "
            "similarly.",
        ),
        _cases(scores, "end", _at("ML1-Push", 6), list(combinations((*_OURS, "orthogonal-es"), 2))),
        _measure(WORDS["end"]),
        margin=_MARGIN,
        why="as for “competitive”",
    )
