# SPDX-License-Identifier: Apache-2.0
"""Training with JAX that goes on after a failure: ``hvd.elastic``.

    @hvd.elastic.run
    def train(state):
        while state.step < 100:
            state.params, state.opt_state = update(state.params, state.opt_state, batch_of(state.step))
            state.step += 1
            state.commit()

    train(hvd.elastic.JaxState(params=params, opt_state=optimizer.init(params), step=0))
"""

import copy
from typing import Any, NamedTuple

import jax
import numpy as np

from horovod.common import basics, elastic
from horovod.common.elastic import State, leave  # noqa: F401 - part of the module's interface
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt  # noqa: F401
from horovod.elastic import ObjectState  # noqa: F401
from horovod.jax._failures import as_horovods
from horovod.jax.functions import broadcast_object, broadcast_parameters


def run(func):
    """Decorates ``func(state, ...)``, as :func:`horovod.elastic.run` does.

    What JAX makes of the errors of Horovod's operations in compiled programs counts as these.
    """
    return elastic.run(as_horovods(func))


class _Kept(NamedTuple):
    """An array of JAX as numbers on the host."""

    numbers: np.ndarray
    sharding: Any
    key_impl: Any  # of random keys

    def again(self):
        numbers = self.numbers if self.key_impl is None else jax.random.wrap_key_data(self.numbers, impl=self.key_impl)
        return jax.device_put(numbers, self.sharding)


def _keep(leaf):
    if not isinstance(leaf, jax.Array):
        return copy.deepcopy(leaf)
    impl = jax.random.key_impl(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else None
    return _Kept(np.array(leaf if impl is None else jax.random.key_data(leaf)), leaf.sharding, impl)


def _is_kept(leaf):
    return isinstance(leaf, _Kept)


def _is_array(leaf):
    return isinstance(leaf, (jax.Array, np.ndarray))


class JaxState(elastic.ObjectState):
    """Trees of arrays and other objects by name: ``JaxState(params=params, step=0)`` has ``state.params``.

    What is committed lies on the host, so that programs may donate the arrays. What is restored lies where it was.
    """

    def __init__(self, **kwargs):
        super().__init__(broadcast_object, basics.rank, **kwargs)

    def _keep(self):
        self._saved = {name: jax.tree_util.tree_map(_keep, getattr(self, name)) for name in self._names}

    def restore(self):
        for name, tree in self._saved.items():
            leaves = jax.tree_util.tree_map(lambda leaf: leaf.again() if _is_kept(leaf) else copy.deepcopy(leaf), tree, is_leaf=_is_kept)
            setattr(self, name, leaves)

    def sync(self):
        leaves, structure = jax.tree_util.tree_flatten({name: getattr(self, name) for name in self._names})
        arrays = iter(broadcast_parameters([leaf for leaf in leaves if _is_array(leaf)]))
        others = iter(broadcast_object([leaf for leaf in leaves if not _is_array(leaf)]))
        leaves = [next(arrays if _is_array(leaf) else others) for leaf in leaves]
        for name, tree in jax.tree_util.tree_unflatten(structure, leaves).items():
            setattr(self, name, tree)
        self._keep()
