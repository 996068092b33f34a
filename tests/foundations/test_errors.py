"""Bad input: an early error that says what was expected, what came, and where."""

import math
import pickle
import re

import numpy as np
import pytest
import scipy.stats

import gensmooth as gs


def f(x) -> float:
    return float(np.sum(np.square(x, dtype=np.float64)))


def minimize(fun=f, x0=(0.0, 0.0), **options):
    return gs.minimize(fun, x0, **{"max_steps": 3, "seed": 0} | options)


def search(**options) -> gs.RandomSearch:
    return gs.RandomSearch(
        **{"directions": gs.Gaussian(), "num_directions": 4, "spacing": 0.1} | options
    )


def _words(value) -> str | None:
    return str(value)[:40] if isinstance(value, str | dict) else None


# --- arguments: what the error must say --------------------------------------------------------

ARGUMENTS = [
    # x0
    ({"x0": [0.0, math.nan]}, ValueError, "`x0` must be finite, but x0[1] is not"),
    ({"x0": [[0.0, 1.0], [math.inf, 0.0]]}, ValueError, "x0[1, 0] is not"),
    ({"x0": []}, ValueError, "`x0` must have at least one entry, but is empty"),
    ({"x0": "abc"}, TypeError, "float32 or float64, but its dtype is <U3"),
    ({"x0": [1j]}, TypeError, "its dtype is complex128"),
    ({"x0": np.zeros(2, np.float16)}, TypeError, "its dtype is float16"),
    ({"x0": [None]}, TypeError, "its dtype is object"),
    # numbers
    ({"spacing": -0.1}, ValueError, "`spacing` must be positive, but is -0.1"),
    ({"spacing": 0}, ValueError, "`spacing` must be positive, but is 0"),
    ({"spacing": math.nan}, ValueError, "`spacing` must be positive, but is nan"),
    ({"spacing": math.inf}, ValueError, "`spacing` must be finite, but is inf"),
    (
        {"num_directions": 0},
        ValueError,
        "`num_directions` must be a whole number of at least 1, but is 0",
    ),
    ({"num_directions": -3}, ValueError, "but is -3"),
    (
        {"num_directions": 2.5},
        ValueError,
        "`num_directions` must be a whole number of at least 1, but is 2.5",
    ),
    (
        {"num_directions": "a"},
        ValueError,
        "`num_directions` must be a whole number of at least 1, but is 'a'",
    ),
    ({"num_directions": True}, ValueError, "but is True"),
    ({"threads": 0}, ValueError, "`threads` must be a whole number of at least 1, but is 0"),
    ({"num_samples": 0, "samples": "shared"}, ValueError, "`num_samples` must be a whole number"),
    ({"num_samples": 3}, ValueError, "`num_samples` is 3, but there are no samples to average"),
    ({"min_fraction": 0}, ValueError, "`min_fraction` must be in (0, 1], but is 0"),
    ({"min_fraction": 1.1}, ValueError, "`min_fraction` must be in (0, 1], but is 1.1"),
    (
        {"budget": 3, "method": "bes"},
        ValueError,
        "3, but one step takes 7 evaluations and the final value 1: allow at least 8",
    ),
    (
        {"budget": 2},
        ValueError,
        "2, but one step takes 2 evaluations and the final value 1: allow at least 3",
    ),
    ({"seed": -1}, ValueError, "`seed` must be in [0, 2**64), but is -1"),
    ({"seed": 1.5}, TypeError, "`seed` must be an integer or None, but is 1.5"),
    # choices
    (
        {"samples": "fresh"},
        ValueError,
        "`samples` must be one of 'shared', 'paired', 'independent', but is 'fresh'",
    ),
    ({"on_failure": "ignore"}, ValueError, "`on_failure` must be one of 'raise', 'drop'"),
    (
        {"on_failure": "retry", "workers": gs.evaluators.Threads(2)},
        ValueError,
        "does not retry: pass `retries` to it, as in Threads(..., retries=2)",
    ),
    (
        {"method": "bess"},
        ValueError,
        "There is no method 'bess'. Did you mean 'bes'? Known: gs, bes,",
    ),
    ({"method": "zzz"}, ValueError, "There is no method 'zzz'. Known: gs, bes,"),
    (
        {"method": "gs", "directions": gs.Gaussian()},
        ValueError,
        "either `method=` or `directions=`, not both",
    ),
    (
        {"directions": "bes"},
        TypeError,
        "`directions` must be an object such as gs.Bernoulli(), but is 'bes': for a name, pass "
        "method='bes'.",
    ),
    (
        {"directions": gs.Gaussian},
        TypeError,
        "`directions` must be directions, such as gs.Gaussian(), but is <class",
    ),
    ({"estimator": "antithetc"}, ValueError, "There is no estimator 'antithetc'. Did you mean"),
    ({"estimator": gs.Antithetic}, TypeError, "such as gs.Antithetic(), "),
    (
        {"optimizer": "adam"},
        TypeError,
        "`optimizer` must be an (init, update) pair such as gs.sgd(0.01)",
    ),
    ({"learning_rate": -0.1}, ValueError, "`learning_rate` must be positive, but is -0.1"),
    ({"learning_rate": math.nan}, ValueError, "must be positive, but is nan"),
    ({"fun": 3}, TypeError, "`fun` must be a function, but is 3"),
    (
        {"method": "auto", "spacing": 0.1, "learning_rate": 0.1},
        ValueError,
        "method='auto' chooses `spacing` and `learning_rate` itself: omit `spacing`, or name",
    ),
    (
        {"method": "auto", "directions": gs.Gaussian()},
        ValueError,
        "method='auto' chooses `directions` itself",
    ),
    # scales
    ({"x_scale": 0}, ValueError, "`x_scale` must be positive and finite, but is 0"),
    ({"x_scale": [1, -1]}, ValueError, "`x_scale` must be positive and finite, but is [1, -1]"),
    ({"x_scale": math.inf}, ValueError, "`x_scale` must be positive and finite, but is inf"),
    (
        {"x_scale": np.ones(3)},
        ValueError,
        "must be a number or an array of the shape (2,) of x0, but has shape (3,)",
    ),
    ({"x_scale": "a"}, TypeError, "`x_scale`"),
    (
        {"x_scale": [1.0, 2.0], "spacing": 0.1},
        ValueError,
        "`x_scale` must be one number with method='bes'",
    ),
    (
        {"log_scale": True, "x0": [1.0, 0.0]},
        ValueError,
        "`log_scale` needs parameters above zero, but one of them starts at 0",
    ),
    (
        {"log_scale": [True] * 3, "x0": [1.0, 1.0]},
        ValueError,
        "must be True, False or a Boolean array of the shape (2,) of x0",
    ),
    ({"log_scale": 1, "x0": [1.0, 1.0]}, ValueError, "`log_scale` must be True, False or a"),
    (
        {"log_scale": True, "x0": [1.0, 1.0], "bounds": (-2, -1)},
        ValueError,
        "`bounds` of a parameter on a log scale must have an upper limit above zero",
    ),
    ({"noise": "known"}, ValueError, "`noise` must be 'returned', a standard error or None"),
    ({"noise": -1.0}, ValueError, "`noise` must not be negative, but is -1.0"),
    # bounds
    (
        {"bounds": (1, 0)},
        ValueError,
        "every lower limit below its upper limit, but one pair is (1.0, 0.0)",
    ),
    ({"bounds": (0, math.nan)}, ValueError, "every lower limit below its upper limit"),
    (
        {"bounds": [(0, 1)] * 3},
        ValueError,
        "one pair (lower, upper) for each of the 2 parameters, but are [(0, 1), (0, 1), (0, 1)]",
    ),
    ({"bounds": [(0, 1), (0,)]}, ValueError, "but are [(0, 1), (0,)]"),
    ({"bounds": 3}, ValueError, "but are 3"),
    (
        {"bounds": gs.Bounds(np.zeros(3), np.ones(3))},
        ValueError,
        "must fit the shape (2,) of x0, but have shapes (3,) and (3,)",
    ),
]


@pytest.mark.parametrize(("options", "kind", "words"), ARGUMENTS, ids=_words)
def test_bad_arguments_are_refused_in_words_before_anything_is_evaluated(options, kind, words):
    calls = []

    def fun(x):
        calls.append(x)
        return f(x)

    with pytest.raises(kind, match=re.escape(words)):
        minimize(**{"fun": fun} | options)
    assert calls == []


OF_A_RUN = {"budget", "x0", "seed", "fun", "method", "workers", "x_scale", "log_scale", "noise"}


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [row for row in ARGUMENTS if not OF_A_RUN & set(row[0])],
    ids=_words,
)
def test_a_search_refuses_the_same(options, kind, words):
    with pytest.raises(kind, match=re.escape(words)):
        search(**options).init([0.0, 0.0], seed=0)


FAMILY_ERRORS = [
    (lambda: gs.Bernoulli(p=0), ValueError, "`p` must be between 0 and 1, but is 0"),
    (lambda: gs.Bernoulli(p=1.5), ValueError, "`p` must be between 0 and 1, but is 1.5"),
    (lambda: gs.Bernoulli(m=-1), ValueError, "`m` must be positive, but is -1"),
    (lambda: gs.Bernoulli(m=math.inf), ValueError, "`m` must be finite, but is inf"),
    (lambda: gs.IID(scipy.stats.norm(loc=1)), ValueError, "must have mean 0, but has 1"),
    (lambda: gs.IID(scipy.stats.cauchy()), ValueError, "must have a finite variance, but has nan"),
    (lambda: gs.IID(scipy.stats.t(df=1.5)), ValueError, "finite variance, but has inf"),
    (lambda: gs.IID(np.random.default_rng()), TypeError, "must have SciPy's `ppf` and `stats`"),
    (
        lambda: gs.Orthogonal("same"),
        ValueError,
        "`lengths` must be one of 'equal', 'residual', but is 'same'",
    ),
    (lambda: gs.Guided(alpha=0), ValueError, "`alpha` must be in (0, 1], but is 0"),
    (lambda: gs.Guided(alpha=1.1), ValueError, "`alpha` must be in (0, 1], but is 1.1"),
    (lambda: gs.Guided(history=0), ValueError, "`history` must be a whole number of at least 1"),
    (lambda: gs.shrunk("gs"), TypeError, "`directions` must be directions"),
    (
        lambda: gs.shrunk(gs.Gaussian(), scale="both"),
        ValueError,
        "`scale` must be one of 'direction', 'estimate', but is 'both'",
    ),
    (
        lambda: gs.shrunk(gs.Guided()),
        gs.NoClosedForm,
        "It cannot be shrunk; tune its learning rate",
    ),
    (
        lambda: gs.OnePoint("mean"),
        ValueError,
        "`baseline` must be a number, 'others' or None, but is 'mean'",
    ),
    (
        lambda: gs.directions.named("gs", dim=3),
        ValueError,
        "Pass both `dim` and `num_directions`, or neither",
    ),
]


@pytest.mark.parametrize(("make", "kind", "words"), FAMILY_ERRORS, ids=_words)
def test_bad_families_are_refused_in_words(make, kind, words):
    with pytest.raises(kind, match=re.escape(words)):
        make()


def test_unknown_names_of_the_package_are_attribute_errors():
    with pytest.raises(AttributeError, match="module 'gensmooth' has no attribute 'minimise'"):
        gs.minimise  # noqa: B018


# --- tell --------------------------------------------------------------------------------------


@pytest.fixture
def told():
    """A search after one step, with the batch of that step."""
    s = search()
    first = s.init(np.zeros(2), seed=0)
    batch = s.ask(first)
    values = [f(p) for p in batch.points()]
    return s, first, batch, values, s.tell(first, batch, values)[0]


def test_a_batch_is_told_once(told):
    s, _, batch, values, state = told
    with pytest.raises(
        ValueError, match="The batch is of step 0, but the state is at step 1: pass each"
    ):
        s.tell(state, batch, values)


def test_an_old_batch_is_refused(told):
    s, _, batch, values, state = told
    for _ in range(2):
        state = s.tell(state, s.ask(state), values)[0]
    with pytest.raises(ValueError, match="of step 0, but the state is at step 3"):
        s.tell(state, batch, values)


def test_a_batch_of_another_run_is_refused(told):
    s, first, _, values, state = told
    other = s.init(np.zeros(2), seed=1)
    with pytest.raises(ValueError, match="of a run with another seed"):
        s.tell(first, s.ask(other), values)
    elsewhere = s.init(np.ones(2), seed=0)
    with pytest.raises(ValueError, match="at another x"):
        s.tell(first, s.ask(elsewhere), values)
    assert state.step == 1


@pytest.mark.parametrize("count", [0, 1, 4, 6])
def test_values_of_a_wrong_length_are_refused(count, told):
    s, first, batch, _, _ = told
    with pytest.raises(ValueError, match=f"need 5 values, but `tell` got {count}"):
        s.tell(first, batch, [0.0] * count)


def test_missing_values_at_the_centre_are_guessed():
    s = search(num_directions=20, samples="independent")
    state = s.init(np.zeros(2), seed=0)
    words = (
        '20 directions with the ForwardDifference estimator and samples="independent" need 40 '
        "values, but `tell` got 20: did you drop the values at the centre?"
    )
    with pytest.raises(ValueError, match=re.escape(words)):
        s.tell(state, s.ask(state), np.zeros(20))
    antithetic = search(estimator=gs.Antithetic())
    with pytest.raises(ValueError, match=r"need 8 values, but `tell` got 4\.$"):
        antithetic.tell(state, antithetic.ask(state), np.zeros(4))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_bad_value_that_is_told_is_named(bad, told):
    s, first, batch, values, _ = told
    values[3] = bad
    words = f"evaluation 3 of 5 in step 0 (+direction 2) has the value {bad}. Fix the objective"
    with pytest.raises(ValueError, match=re.escape(words)):
        s.tell(first, batch, values)
    values[1] = math.nan
    with pytest.raises(ValueError, match=r"evaluation 1 .* and 1 more are not finite"):
        s.tell(first, batch, values)


def test_a_generator_without_samples_is_refused(told):
    _, _, batch, _, _ = told
    with pytest.raises(ValueError, match="create the search with `samples="):
        batch.rng(0)


def test_an_optimiser_that_returns_another_shape_is_refused():
    wrong = gs.Optimizer(lambda _: None, lambda gradient, state, _: (gradient[:1], state))
    with pytest.raises(ValueError, match=r"`optimizer` must return .* shape \(2,\) of x.* \(1,\)"):
        minimize(optimizer=wrong)


# --- objectives --------------------------------------------------------------------------------


STEPS_OF_SEVEN = {"method": "bes", "num_directions": 6}  # and the centre


def _raise():
    raise KeyError("lost")


OBJECTIVES = [
    (lambda: np.zeros(3), "must return one number, but returned an array of shape (3,)"),
    (lambda: [1.0, 2.0], "must return one number, but returned an array of shape (2,)"),
    (lambda: (1.0, "aux"), "must return a number, but returned (1.0, 'aux')"),
    (lambda: np.zeros((2, 2)), "of shape (2, 2) (for many points per call, pass vectorized=True)"),
    (list, "must return one number, but returned an array of shape (0,)"),
    (lambda: "three", "must return a number, but returned 'three'"),
    (lambda: "3.0", "must return a number, but returned '3.0'"),
    (lambda: None, "returned None (does it end without `return`?)"),
    (lambda: 1j, "must return a number, but returned 1j"),
    (lambda: np.complex128(1j), "must return a number, but returned np.complex128(1j)"),
    (dict, "must return a number, but returned {}"),
    (lambda: math.nan, "returned nan (on_failure='drop' would leave its direction out)"),
    (lambda: np.float32(math.inf), "returned inf"),
    (lambda: -math.inf, "returned -inf"),
    (_raise, "raised KeyError: 'lost'"),
    (lambda: 10**400, "000... (OverflowError: int too large to convert to float)"),
    (lambda: Stubborn(), "returned <tensor> (RuntimeError: call detach() first)"),
    (
        lambda: Speechless(),
        "must return a number, but returned a Speechless that cannot be shown as text",
    ),
    (lambda: np.datetime64("2020-01-01"), "must return a number, but returned np.datetime64("),
    (lambda: np.ma.masked, "returned nan"),
]


class Stubborn:
    """As PyTorch's tensors with a gradient are."""

    def __array__(self, *_, **__):
        raise RuntimeError("call detach() first")

    def __repr__(self):
        return "<tensor>"


class Speechless(Exception):  # noqa: N818
    def __str__(self):
        raise RuntimeError

    __repr__ = __str__


def _bad_at(call: int, how):
    calls = [0]

    def fun(x):
        calls[0] += 1
        return how() if calls[0] == call else f(x)

    return fun


@pytest.mark.parametrize(("how", "words"), OBJECTIVES, ids=_words)
def test_a_bad_objective_is_named_with_its_evaluation_and_nothing_is_lost(how, words):
    # The third evaluation of the third step: six directions and the centre make a step.
    with pytest.raises(gs.EvaluationError, match=re.escape(words)) as caught:
        minimize(_bad_at(17, how), **STEPS_OF_SEVEN, max_steps=9)
    error = caught.value
    assert "evaluation 2 of 7 in step 2 (+direction 1)" in str(error)
    assert (error.step, error.index) == (2, 2)
    assert isinstance(error.__cause__, KeyError) == (how is _raise)
    good = minimize(**STEPS_OF_SEVEN, max_steps=9, callback=lambda now: now.info.step == 1)
    assert np.array_equal(error.result.x, good.x)
    assert (error.result.nit, error.result.nfev) == (2, 14)
    assert error.result.best_fun == good.best_fun
    assert not error.result.success
    assert len(error.result.history.value) == 2


@pytest.mark.parametrize(("how", "words"), OBJECTIVES, ids=_words)
def test_a_bad_final_value_is_named_and_nothing_is_lost(how, words):
    with pytest.raises(gs.EvaluationError, match=re.escape(words)) as caught:
        minimize(_bad_at(22, how), **STEPS_OF_SEVEN, max_steps=3)
    assert np.array_equal(caught.value.result.x, minimize(**STEPS_OF_SEVEN, max_steps=3).x)
    assert caught.value.result.nit == 3


@pytest.mark.parametrize(("how", "words"), OBJECTIVES, ids=_words)
def test_gradient_names_a_bad_objective_too(how, words):
    with pytest.raises(gs.EvaluationError, match=re.escape(words)) as caught:
        gs.gradient(_bad_at(3, how), np.zeros(2), seed=0)
    assert (caught.value.step, caught.value.index) == (0, 2)


@pytest.mark.parametrize(
    "value", [1, True, np.float32(1), np.int8(1), np.array(1.0), np.array([1.0]), [1.0]]
)
def test_what_is_one_number_is_taken_for_one(value):
    found = gs.gradient(lambda _: value, np.zeros(2), seed=0)
    assert found.value == 1.0
    assert np.array_equal(found.gradient, np.zeros(2))


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (
            lambda points: np.zeros(len(points) - 1),
            "must return 7 values for 7 points, but returned an array of shape (6,)",
        ),
        (lambda points: np.zeros((len(points), 1)), "of shape (7, 1)"),
        (lambda _: 1.0, "of shape ()"),
        (lambda _: "abc", "must return numbers, but returned 'abc'"),
        (lambda points: 1j * np.ones(len(points)), "must return numbers, but returned array("),
        (
            lambda points: np.where(np.arange(len(points)) == 4, math.nan, 0.0),
            "leave its direction out), at evaluation 4 of 7 in step 0 (+direction 3)",
        ),
        (lambda _: _raise(), "raised KeyError: 'lost'"),
    ],
)
def test_a_bad_vectorised_objective_is_named(returned, words):
    with pytest.raises(gs.EvaluationError, match=re.escape(words)) as caught:
        minimize(returned, **STEPS_OF_SEVEN, vectorized=True)
    assert caught.value.result.nit == 0


def test_too_few_directions_left_is_an_error_that_keeps_the_run():
    calls = [0]

    def fun(x):
        calls[0] += 1
        return math.nan if calls[0] > 10 else f(x)

    words = "Only 2 of 6 directions of step 1 have finite values (first bad one: evaluation 3 of 7"
    with pytest.raises(gs.EvaluationError, match=re.escape(words)) as caught:
        minimize(fun, **STEPS_OF_SEVEN, on_failure="drop")
    assert (caught.value.step, caught.value.index) == (1, 3)
    assert caught.value.result.nit == 1
    assert np.isfinite(caught.value.result.x).all()


def test_what_is_not_a_number_is_an_error_even_when_failures_are_dropped():
    # A wrong type is a mistake of the program, not a failure of an evaluation.
    for how in (lambda: "three", lambda: None, lambda: np.zeros(2)):
        with pytest.raises(gs.EvaluationError, match=r"return"):
            minimize(_bad_at(4, how), on_failure="drop")


def test_an_objective_that_leaves_the_program_is_an_error_with_the_result_so_far():
    def leave(_):
        raise SystemExit(3)

    with pytest.raises(gs.EvaluationError, match="raised SystemExit: 3") as caught:
        minimize(leave)
    assert caught.value.result.nit == 0


def test_an_exception_without_words_is_an_error_all_the_same():
    def fun(_):
        raise Speechless

    with pytest.raises(
        gs.EvaluationError, match="raised Speechless: a Speechless that cannot be shown as text"
    ):
        minimize(fun)


def test_an_evaluation_error_can_be_pickled():
    with pytest.raises(gs.EvaluationError) as caught:
        minimize(_bad_at(17, _raise), **STEPS_OF_SEVEN, max_steps=9)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert (copy.step, copy.index) == (2, 2)
    assert np.array_equal(copy.result.x, caught.value.result.x)
