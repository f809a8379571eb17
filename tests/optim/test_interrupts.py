"""Signals that come while an optimizer runs: what can be saved is saved, and nothing waits long."""

import json
import math

import numpy as np
import pytest

from tests.problems import chain_problem
from turbotag.interrupts import Interrupted, pending
from turbotag.optim.algorithms import algorithm
from turbotag.optim.dca import DCA
from turbotag.optim.run import Dev, Limits, Saving, run
from turbotag.optim.trace import Trace

INT, TERM = 2, 15
LAM = 0.05


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def quiet():
    yield
    pending.work, pending.number, pending.note = "", 0, ""


class Signalled(Trace):
    """Lets a signal come in the middle of some epochs: those that begin after these rows."""

    def __init__(self, *rows, number=INT):
        super().__init__()
        self.at, self.number, self.waited = rows, number, []

    def add(self, row):
        super().add(row)
        self.coming = len(self.rows) in self.at


def interruptible(cls, trace, **params):
    opt = cls(chain_problem(), LAM, rng(3), **params)
    once = opt.epoch

    def epoch():
        if getattr(trace, "coming", False):
            trace.waited.append(pending.ask(trace.number) and pending.work)
        once()

    opt.epoch = epoch
    return opt


def saving(states, **how):
    def write(arrays, text):
        states.append(({name: array.copy() for name, array in arrays.items()}, text))

    return Saving(write, **how)


@pytest.mark.parametrize("number", [INT, TERM])
def test_a_signal_waits_for_the_end_of_the_epoch_which_is_saved(number):
    states, trace = [], Signalled(2, number=number)
    with pytest.raises(Interrupted) as caught:
        run(interruptible(DCA, trace), Limits(6), trace, saving=saving(states))
    assert caught.value.number == number
    assert trace.waited == ["epoch 3"]
    assert [json.loads(text)["epochs"] for _, text in states] == [3]
    assert pending.work == ""
    resumed = run(DCA(chain_problem(), LAM, rng(3)), Limits(6), Trace(), resume=states[0])
    whole = run(DCA(chain_problem(), LAM, rng(3)), Limits(6), Trace())
    assert resumed.weights.tobytes() == whole.weights.tobytes()


def test_a_signal_does_not_wait_where_nothing_is_lost():
    states, trace = [], Signalled(0, 2)
    trace.coming = True  # within the first epoch
    run(interruptible(DCA, trace), Limits(4), trace, saving=saving(states, seconds=0.0))
    assert trace.waited == [False, False]  # no epoch had ended; the one before was on disk
    pending.settle()
    trace = Signalled(2)
    run(interruptible(DCA, trace), Limits(4), trace)
    assert trace.waited == [False]  # nobody saves


def test_a_second_signal_does_not_wait():
    pending.work = "epoch 7"
    assert pending.ask(INT)
    assert not pending.ask(TERM)
    assert not pending.ask(INT)
    with pytest.raises(Interrupted):
        pending.settle()


@pytest.mark.parametrize("last", [False, True])
def test_a_signal_after_the_last_epoch(last):
    """The caller is about to write the model, or the state is on disk."""
    states, waited = [], []
    opt = DCA(chain_problem(), LAM, rng())

    def score(weights):
        if len(scores) == 3:
            waited.append(pending.ask(INT) and pending.work)
        scores.append(0.5)
        return 0.5

    scores = []
    result = run(opt, Limits(3), Trace(), Dev(score, keep="last"), saving(states, last=last))
    assert (waited, result.epoch) == ([False] if last else ["the last pass"], 3)
    assert len(states) == last
    if not last:
        with pytest.raises(Interrupted):
            pending.settle("m is written")
        assert pending.note == "m is written"
        return
    again = DCA(chain_problem(), LAM, rng())  # over as it is, and goes on if more is asked for
    over = run(again, Limits(3), Trace(), Dev(lambda weights: 0.5), resume=states[0])
    assert (again.updates, over.certificate) == (opt.updates, result.certificate)
    assert over.weights.tobytes() == result.weights.tobytes()
    further = run(DCA(chain_problem(), LAM, rng()), Limits(5), Trace(), resume=states[0])
    whole = run(DCA(chain_problem(), LAM, rng()), Limits(5), Trace())
    assert further.weights.tobytes() == whole.weights.tobytes()


@pytest.mark.parametrize("name", ["lbfgs", "cg"])
def test_rounds_are_continued_from_their_beginning(name, monkeypatch):
    """SciPy's loops cannot be saved in the middle."""
    monkeypatch.setattr("turbotag.optim.quasi_newton.ROUND", 3)
    cls = algorithm(name)
    states, trace = [], Signalled(1, 4)
    with pytest.raises(Interrupted):
        run(interruptible(cls, trace), Limits(7), trace, saving=saving(states))
    assert trace.waited == [False, "epoch 5"]
    assert [json.loads(text)["epochs"] for _, text in states] == [3]
    resumed = run(cls(chain_problem(), LAM, rng(3)), Limits(7), Trace(), resume=states[0])
    whole = run(cls(chain_problem(), LAM, rng(3)), Limits(7), Trace())
    assert resumed.weights.tobytes() == whole.weights.tobytes()


def test_limits_may_change_when_a_run_is_resumed():
    """What was certified is known, and decides whether there is anything left to do."""
    cls, states = algorithm("sdca"), []
    run(
        cls(chain_problem(), LAM, rng()),
        Limits(50, 1e-2),
        Trace(),
        saving=saving(states, last=True),
    )
    epochs = json.loads(states[-1][1])["epochs"]
    for limits, more in ((Limits(50, 2e-2), False), (Limits(50, 1e-4), True), (Limits(1), False)):
        opt = cls(chain_problem(), LAM, rng())
        result = run(opt, limits, Trace(), resume=states[-1])
        assert (opt.epochs > epochs) == more
        assert result.certificate.gap <= (limits.gap or math.inf)
    assert result.stopped == f"{epochs} epochs"
