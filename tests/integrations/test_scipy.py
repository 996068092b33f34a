"""gensmooth as a method of SciPy's."""

import numpy as np
import pytest
import scipy
import scipy.optimize

import gensmooth as gs


def bowl(x, centre, scale=1.0):
    return float(scale * ((x - centre) ** 2).sum())


HOW = {"budget": 300, "seed": 0}


def test_it_is_gs_minimize_bit_for_bit():
    bounds = [(0.0, 2.0), (0.0, 9.0), (None, 2.5)]
    theirs = scipy.optimize.minimize(
        bowl, [0.5, 0.5, 0.5], args=(3.0, 2.0), method=gs.scipy.method("auto"), bounds=bounds,
        options=HOW,
    )  # fmt: skip
    ours = gs.minimize(bowl, [0.5, 0.5, 0.5], args=(3.0, 2.0), bounds=bounds, **HOW)
    assert isinstance(theirs, scipy.optimize.OptimizeResult)
    assert theirs.x.tolist() == ours.x.tolist()
    for name in ("fun", "nfev", "nit", "success", "message", "best_fun", "seed"):
        assert theirs[name] == ours[name]
    assert theirs.status == 0
    assert theirs.reason == "budget"
    assert theirs.x == pytest.approx([2, 3, 2.5], abs=1e-3)


@pytest.mark.parametrize("bounds", [scipy.optimize.Bounds(-1, 1), [(-1, 1)] * 2, None])
@pytest.mark.parametrize("name", ["bes", "guided-es"])
def test_methods_bounds_and_options(name, bounds):
    method = gs.scipy.method(name, spacing=0.05, seed=1)
    res = scipy.optimize.minimize(
        bowl, [0.0, 0.0], args=(2.0,), method=method, bounds=bounds,
        options={"maxiter": 7, "learning_rate": 0.2},
    )  # fmt: skip
    same = gs.minimize(bowl, [0.0, 0.0], args=(2.0,), method=name, spacing=0.05, seed=1,
                       max_steps=7, learning_rate=0.2, bounds=bounds)  # fmt: skip
    assert res.nit == 7
    assert res.x.tolist() == same.x.tolist()
    assert method == gs.scipy.method(name, spacing=0.05, seed=1)  # and is not changed by use


def test_callbacks_as_scipy_has_them():
    seen = []

    def plain(xk):
        seen.append(xk)

    def result(intermediate_result):
        seen.append(intermediate_result)
        if intermediate_result.nit == 4:
            raise StopIteration

    method = gs.scipy.method("bes")
    options = {"options": {**HOW, "max_steps": 9}}
    full = scipy.optimize.minimize(bowl, [0.0], (1.0,), method, callback=plain, **options)
    assert len(seen) == full.nit == 9
    assert all(x.shape == (1,) for x in seen)
    assert seen[-1].tolist() == full.x.tolist()
    seen.clear()
    stopped = scipy.optimize.minimize(bowl, [0.0], (1.0,), method, callback=result, **options)
    assert stopped.nit == len(seen) == 4
    assert np.isfinite(seen[-1].fun)
    assert (stopped.reason, stopped.status) == ("callback", 99)
    seen.clear()
    options["options"] |= {"log_scale": True, "max_steps": 3}
    last = scipy.optimize.minimize(bowl, [2.0], (1.0,), method, callback=plain, **options)
    assert seen[-1].tolist() == last.x.tolist()  # the parameter, not its logarithm


def test_tol_and_the_words_of_scipy():
    flat = scipy.optimize.minimize(
        lambda x: 1.0, [1.0, 1.0], tol=0.5, method=gs.scipy.method("bes"), options=HOW  # noqa: ARG005
    )  # fmt: skip
    assert flat.reason == "tolerance"
    method = gs.scipy.method()
    few = scipy.optimize.minimize(bowl, [1.0], (0.0,), method, options={"maxfev": 40, "seed": 0})
    assert few.nfev <= 40
    with pytest.raises(ValueError, match="both mean `budget`"):
        scipy.optimize.minimize(bowl, [1.0], (0.0,), method, options={"maxfev": 40, "budget": 9})
    with pytest.raises(TypeError, match="`gtol`: use `tolerance` or `target`"):
        scipy.optimize.minimize(bowl, [1.0], (0.0,), method, options={"gtol": 40})
    with pytest.raises(ValueError, match="is not an option: pass it to scipy"):
        gs.scipy.method("bes", bounds=(0, 1))


def test_what_it_cannot_do_is_said():
    method = gs.scipy.method("auto", **HOW)
    with pytest.raises(ValueError, match="does not support `constraints`, only `bounds`"):
        scipy.optimize.minimize(
            bowl, [0.0], (1.0,), method, constraints={"type": "eq", "fun": lambda x: x[0]}
        )
    with pytest.warns(
        RuntimeWarning, match="does not use derivatives, so it ignores `jac`"
    ) as caught:
        scipy.optimize.minimize(bowl, [0.0], (1.0,), method, jac=lambda x, c: 2 * (x - c))
    assert caught[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="`jac`"):
        both = scipy.optimize.minimize(lambda x: (x[0] ** 2, 2 * x), [1.0], (), method, jac=True)
    assert both.fun == pytest.approx(0, abs=1e-9)
    with pytest.raises(ValueError, match="There is no method 'nelder-mead'"):
        gs.scipy.method("nelder-mead")


def test_the_name_shadows_nothing():
    assert scipy is not gs.scipy
    assert scipy.__name__ == "scipy"
    from gensmooth import optimize
    from gensmooth import scipy as ours

    assert ours.__name__ == "gensmooth.scipy"
    assert ours.import_module("scipy") is scipy
    assert "scipy" not in vars(optimize)


@pytest.mark.parametrize("name", ["cma-es", "snes", "spsa", "ars"])
def test_whole_algorithms_by_name(name):
    def bowl(x):
        return float(((x - 1) ** 2).sum())

    ours = gs.minimize(bowl, np.zeros(3), method=name, budget=200, seed=0)
    theirs = scipy.optimize.minimize(
        bowl, np.zeros(3), method=gs.scipy.method(name, seed=0), options={"maxfev": 200}
    )
    assert np.array_equal(ours.x, theirs.x)


def test_an_unknown_name_is_compared_in_any_case():
    with pytest.raises(ValueError, match="Did you mean 'cma-es'"):
        gs.scipy.method("CMA-ES")
