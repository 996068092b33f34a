# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUntypedFunctionDecorator=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false, reportInvalidTypeForm=false, reportGeneralTypeIssues=false
# pyright: reportCallIssue=false, reportAttributeAccessIssue=false, reportPrivateImportUsage=false
# pyright: reportAssignmentType=false
"""Warp kernels that standardise observations and compute a policy's layers.

On a GPU, each number of each world has its own thread. A CPU thread takes several worlds, with all
their observations, and several outputs of a layer at a time. An output is one long sum, in which
every addition waits for the previous one, so the thread works on the other sums meanwhile. The C
code uses the types and functions of :mod:`gensmooth.physics.fused.lanes`.

Parameters are stored in blocks of trials. On a CPU, a block has as many trials as a thread takes
worlds, so that the thread reads memory in order. On a GPU, one block has all trials.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, final

import warp as wp

from gensmooth.physics.fused.lanes import opening
from gensmooth.physics.warp_kernels import Worlds
from gensmooth.rl.policies import Layer

_OUTPUTS = 4  # outputs of a layer that a CPU thread sums side by side

_TRIALS = """\
{opening}
if ({lanes} == 1 && s.trial.data[world] < 0) return;
int trials[{lanes}];
for (int k = 0; k < {lanes}; ++k) {{
    const int trial = s.trial.data[world + k];
    trials[k] = trial < 0 ? 0 : trial;
}}
"""

# Standardises `count` entries of observations from `first` on, and updates the episode's moments
# (Welford, 1962).
_STANDARDIZE = (
    _TRIALS
    + """\
int groups[{lanes}];
for (int k = 0; k < {lanes}; ++k) groups[k] = s.group.data[trials[k]];
const real length = lanes::number(s.length.data + world);
const truth begins = length == 0.0;
for (int entry = first; entry < first + count; ++entry) {{
    const int here = entry * s.worlds + world, scale = entry * s.groups;
    const real value = lanes::load(s.observation.data + here);
    const real before = lanes::load(s.mean.data + here), delta = value - before;
    const real mean = begins ? value : before + delta / (length + 1.0);
    const real more = delta * (value - mean);
    lanes::store(s.mean.data + here, busy, mean);
    lanes::store(s.m2.data + here, busy, begins ? 0.0 : lanes::load(s.m2.data + here) + more);
    const real centred = value - lanes::gather(s.scale_mean.data + scale, groups);
    const real inverse = lanes::gather(s.scale_inverse.data + scale, groups);
    lanes::store(s.standard.data + here, busy, centred * inverse);
}}"""
)

# Computes outputs of a layer, from `first` on.
_LAYER = (
    _TRIALS
    + """\
int where[{lanes}];  // the first parameter of each trial
bool adjacent = true;
for (int k = 0; k < {lanes}; ++k) {{
    where[k] = trials[k] / s.block * s.block * s.parameters_each + trials[k] % s.block;
    adjacent = adjacent && where[k] == where[0] + k;
}}
real sums[{outputs}];
const double* weights[{outputs}];
for (int j = 0; j < {outputs}; ++j) {{
    const int row = first + j < rows ? first + j : rows - 1;
    sums[j] = 0.0;
    weights[j] = s.parameters.data + (size_t)(start + row * columns) * s.block;
}}
const double* value = inputs.data + world;
for (int i = 0; i < columns; ++i, value += s.worlds) {{
    const real x = lanes::load(value);
    for (int j = 0; j < {outputs}; ++j) {{
        const double* w = weights[j];
        weights[j] += s.block;
        const real term = (adjacent ? lanes::load(w + where[0]) : lanes::gather(w, where)) * x;
        sums[j] += term;
    }}
}}
for (int j = 0; j < {outputs} && first + j < rows; ++j) {{
    const double* shift = s.parameters.data + (size_t)(bias + first + j) * s.block;
    const real sum = bias < 0 ? sums[j] : sums[j] + lanes::gather(shift, where);
    const real activated = hidden ? math::tanh(sum) : sum;
    lanes::store(outputs.data + (first + j) * s.worlds + world, busy, activated);
}}"""
)


@final
class PolicyKernels:
    """Kernels that standardise observations and compute actions.

    Args:
        lanes: How many worlds a thread takes.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes, self._outputs = lanes, 1 if lanes == 1 else _OUTPUTS
        texts = {"opening": opening(lanes), "lanes": lanes, "outputs": self._outputs}

        @wp.func_native(_STANDARDIZE.format(**texts))
        def standardize_entries(s: Worlds, first: int, count: int, world: int): ...

        @wp.func_native(_LAYER.format(**texts))
        def compute_outputs(
            s: Worlds,
            inputs: wp.array(dtype=wp.float64),
            outputs: wp.array(dtype=wp.float64),
            start: int,
            rows: int,
            columns: int,
            bias: int,
            hidden: int,
            first: int,
            world: int,
        ): ...

        @wp.kernel(module="unique", enable_backward=False)
        def standardize(s: Worlds, count: int):
            part, worlds = wp.tid()
            standardize_entries(s, part * count, count, worlds * wp.static(lanes))

        @wp.kernel(module="unique", enable_backward=False)
        def layer(
            s: Worlds,
            inputs: wp.array(dtype=wp.float64),
            outputs: wp.array(dtype=wp.float64),
            start: int,
            rows: int,
            columns: int,
            bias: int,
            hidden: int,
        ):
            part, worlds = wp.tid()
            first, world = part * wp.static(self._outputs), worlds * wp.static(lanes)
            compute_outputs(s, inputs, outputs, start, rows, columns, bias, hidden, first, world)

        self._standardize, self._layer = standardize, layer

    def act(self, s: Any, size: int, layers: Sequence[Layer], hidden: Sequence[Any]) -> None:
        """Compute actions from observations.

        Args:
            s: The worlds, a :class:`Worlds`.
            size: Entries of an observation.
            layers: The layers of the policy.
            hidden: Two arrays for the values between layers.
        """
        blocks, count = s.worlds // self._lanes, 1 if self._lanes == 1 else size
        wp.launch(self._standardize, dim=(size // count, blocks), inputs=[s, count])
        inputs = s.standard
        for number, layer in enumerate(layers):
            last = number == len(layers) - 1
            outputs = s.action if last else hidden[number % 2]
            bias = layer.bias_start if layer.bias else -1
            numbers = [layer.start, layer.rows, layer.columns, bias, int(not last)]
            wp.launch(
                self._layer,
                dim=(math.ceil(layer.rows / self._outputs), blocks),
                inputs=[s, inputs, outputs, *numbers],
            )
            inputs = outputs


@cache
def policy_kernels(lanes: int) -> PolicyKernels:
    """Return the kernels for this many worlds per thread."""
    return PolicyKernels(lanes)
