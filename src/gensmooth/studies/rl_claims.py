"""What the paper says of reinforcement learning, sentence by sentence.

Most sentences say that some methods are above others in some settings: they are the table
``_PLAIN``. The rest, which compare something else, have functions of their own.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import NamedTuple

from gensmooth.methods import METHODS
from gensmooth.studies import paper, paper_rl
from gensmooth.studies.cases import Case, How, Sentence, above, alike
from gensmooth.studies.rl_scores import WORDS, Kind, Sample, Scores
from gensmooth.studies.rl_settings import PAPER, Setting
from gensmooth.studies.spec import ClaimRow, Record

Pairs = Sequence[tuple[str, str]]

_RL, _ABLATIONS = "Section 5.2, fig:rl", "Section 5.3, fig:rlablations"
_MORE, _DISCUSSION = "Appendix C.2, fig:rl2", "Section 5.5"
_MARGIN = 0.1  # of the range: what "competitive" and "similar" allow, and "a large margin" asks for
_SHRUNK = ("gs-shrinkage", "bes-shrinkage")
_OURS = ("bes", *_SHRUNK)
_RIVALS = ("orthogonal-es", "guided-es")
_LOCOMOTION = ("Ant", "Walker2d", "HalfCheetahRandVel")
_ALL = [setting for setting in PAPER if setting.part == "main"]
_FIGURE = [s for s in _ALL if s.environment in (*_LOCOMOTION, "ML1-Reach")]
_MLP, _ANTITHETIC = Setting("Ant", 20, "mlp"), Setting("Ant", 20, "antithetic")


def _at(environment: str, *numbers: int) -> list[Setting]:
    return [Setting(environment, number) for number in numbers or paper_rl.NUM_DIRECTIONS]


def _against_rest(*named: str) -> Pairs:
    """Each of some methods against each of the others."""
    return list(product(named, [name for name in paper.METHODS if name not in named]))


class Plain(NamedTuple):
    """The sentence that, in some settings, the first of each pair is above the second.

    Attributes:
        name: A short name.
        place: Where the paper says it.
        claim: What it says, in our words.
        kind: What is compared.
        settings: Where.
        pairs: Of methods.
        how: In how many cases.
        by: How far above; negative for "competitive".
    """

    name: str
    place: str
    claim: str
    kind: Kind
    settings: Sequence[Setting]
    pairs: Pairs
    how: How = "all"
    by: float = 0.0


_PLAIN = (
    Plain(
        "rl-bes-faster", _RL,
        "In the majority of cases BeS learns more quickly than GS.",
        "whole", _FIGURE, [("bes", "gs")], "most",
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
    ),
    Plain(
        "rl-ant-guided-six", _RL,
        "On Ant with L = 6, GS-shrinkage and BeS-shrinkage are above Guided ES at the beginning.",
        "beginning", _at("Ant", 6), list(product(_SHRUNK, ("guided-es",))),
    ),
    Plain(
        "rl-ant-guided-twenty", _RL,
        "On Ant with L = 20, GS-shrinkage and BeS-shrinkage are above Guided ES.",
        "end", _at("Ant", 20), list(product(_SHRUNK, ("guided-es",))),
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
        "whole", _at("HalfCheetahRandVel"), _against_rest(*_SHRUNK),
    ),
    Plain(
        "rl-cheetah-caught-up", _RL,
        "On HalfCheetahRandVel with L = 6 and L = 20, the others have caught up with GS-shrinkage "
        "and BeS-shrinkage at the end.",
        "end", _at("HalfCheetahRandVel", 6, 20),
        [(other, shrunk) for shrunk, other in _against_rest(*_SHRUNK)], by=-_MARGIN,
    ),
    Plain(
        "rl-cheetah-two", _RL,
        "On HalfCheetahRandVel with L = 2, the others have not caught up (what the paper implies "
        "by naming L = 6 and L = 20).",
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
        "On ML1-Reach with L = 2 and L = 6, so does GS.",
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
        "whole", [_MLP], [("bes-shrinkage", "gs-shrinkage")],
    ),
    Plain(
        "rl-mlp-guided-behind", _ABLATIONS,
        "With an MLP policy, Guided ES falls behind GS, BeS and Orthogonal ES.",
        "whole", [_MLP], list(product(("gs", "bes", "orthogonal-es"), ("guided-es",))),
    ),
    Plain(
        "rl-antithetic-early", _ABLATIONS,
        "With the antithetic estimator, Guided ES is the best at the beginning.",
        "beginning", [_ANTITHETIC], _against_rest("guided-es"),
    ),
    Plain(
        "rl-antithetic-late", _ABLATIONS,
        "With the antithetic estimator, BeS-shrinkage and BeS are the best at the end.",
        "end", [_ANTITHETIC], _against_rest("bes-shrinkage", "bes"),
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


def judge(records: Sequence[Record]) -> list[ClaimRow]:
    """Every sentence, judged on the records of whole cells; "not run" where these do not reach."""
    scores = Scores(records)
    rows = [_plain(scores, plain) for plain in _PLAIN]
    rows += [_fewer(scores), *_best_of_ours(scores), *_within_ablations(scores), _push(scores)]
    return rows


def _plain(scores: Scores, plain: Plain) -> ClaimRow:
    cases = _cases(scores, plain.kind, plain.settings, plain.pairs)
    sentence = Sentence(plain.name, plain.place, plain.claim)
    return above(sentence, cases, WORDS[plain.kind], how=plain.how, by=plain.by)


def _cases(scores: Scores, kind: Kind, settings: Iterable[Setting], pairs: Pairs) -> list[Case]:
    return [
        Case(
            f"{METHODS[a].title} vs {METHODS[b].title} ({setting.words})",
            scores.sample((setting, a), kind),
            scores.sample((setting, b), kind),
        )
        for setting, (a, b) in product(settings, pairs)
    ]


def _fewer(scores: Scores) -> ClaimRow:
    """Shrinkage's gain over BeS with few directions, against that with many."""
    cases: list[Case] = []
    for environment, method in product(_LOCOMOTION, _SHRUNK):
        gains: list[Sample] = []
        for setting in _at(environment, 2, 20):
            a, b = (scores.sample((setting, name), "end") for name in (method, "bes"))
            gains.append(None if a is None or b is None else _minus(a, b))
        cases.append(Case(f"{METHODS[method].title} ({environment})", *gains))
    return above(
        Sentence(
            "rl-shrinkage-few",
            _RL,
            "GS-shrinkage and BeS-shrinkage improve on BeS in particular with few trajectories an "
            "iteration: more at L = 2 than at L = 20.",
        ),
        cases,
        f"{WORDS['end']}, difference to BeS at L = 2 against that at L = 20",
        how="often",
    )


def _best_of_ours(scores: Scores) -> list[ClaimRow]:
    """Sentences about the paper's three methods as a set: the best of them in each setting."""

    def cases(settings: Iterable[Setting], rivals: Iterable[str]) -> list[Case]:
        found: list[Case] = []
        for setting, rival in product(settings, rivals):
            best = scores.best(setting, _OURS, "end")
            ours = None if best is None else scores.sample((setting, best), "end")
            name = "the best of ours" if best is None else METHODS[best].title
            label = f"{name} vs {METHODS[rival].title} ({setting.words})"
            found.append(Case(label, ours, scores.sample((setting, rival), "end")))
        return found

    what = f"{WORDS['end']}, of the method of the three with the highest mean in the setting"
    three = "The best of BeS, GS-shrinkage and BeS-shrinkage is"
    but_reach = [setting for setting in _FIGURE if setting.environment != "ML1-Reach"]
    return [
        above(
            Sentence("rl-ours-gs", _DISCUSSION, f"{three} often above GS."),
            cases(_ALL, ("gs",)),
            what,
            how="often",
        ),
        above(
            Sentence(
                "rl-ours-competitive",
                _RL,
                f"{three} at least competitive with Orthogonal ES and Guided ES, ML1-Reach apart.",
            ),
            cases(but_reach, _RIVALS),
            what,
            by=-_MARGIN,
        ),
        above(
            Sentence(
                "rl-ours-outperform",
                _DISCUSSION,
                f"{three} often above Orthogonal ES and Guided ES.",
            ),
            cases(_ALL, _RIVALS),
            what,
            how="often",
        ),
    ]


def _within_ablations(scores: Scores) -> list[ClaimRow]:
    """Sentences that compare a method with itself."""
    plain = ("gs", "bes", "orthogonal-es")
    main = Setting("Ant", 20)
    return [
        above(
            Sentence(
                "rl-mlp-deteriorate",
                _ABLATIONS,
                "With an MLP policy, GS, BeS and Orthogonal ES start out strong but deteriorate: "
                "they were higher at the beginning than at the end.",
            ),
            [
                Case(
                    METHODS[name].title,
                    scores.sample((_MLP, name), "beginning"),
                    scores.sample((_MLP, name), "end"),
                )
                for name in plain
            ],
            "mean test return over the first tenth of the rounds against the last tenth",
        ),
        above(
            Sentence(
                "rl-antithetic-improves",
                _ABLATIONS,
                "The antithetic estimator improves all methods.",
            ),
            [
                Case(
                    METHODS[name].title,
                    scores.sample((_ANTITHETIC, name), "end", unit=main),
                    scores.sample((main, name), "end"),
                )
                for name in paper.METHODS
            ],
            f"{WORDS['end']}, antithetic against forward difference",
        ),
        above(
            Sentence(
                "rl-antithetic-learn",
                _ABLATIONS,
                "With the antithetic estimator, GS, BeS and Orthogonal ES are able to learn: they "
                "end higher than they begin.",
            ),
            [
                Case(
                    METHODS[name].title,
                    scores.sample((_ANTITHETIC, name), "end"),
                    scores.sample((_ANTITHETIC, name), "beginning"),
                )
                for name in plain
            ],
            "mean test return over the last tenth of the rounds against the first tenth",
        ),
    ]


def _push(scores: Scores) -> ClaimRow:
    return alike(
        Sentence(
            "rl-push-six",
            _MORE,
            "On ML1-Push with L = 6, BeS, GS-shrinkage, BeS-shrinkage and Orthogonal ES perform "
            "similarly.",
        ),
        _cases(scores, "end", _at("ML1-Push", 6), list(combinations((*_OURS, "orthogonal-es"), 2))),
        WORDS["end"],
        margin=_MARGIN,
    )


def _minus(a: Sequence[float], b: Sequence[float]) -> list[float]:
    return [x - y for x, y in zip(a, b, strict=True)]
