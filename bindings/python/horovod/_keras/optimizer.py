# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer for optimizers of Keras."""

from horovod._keras import compilation
from horovod._keras.reduction import reduction_for
from horovod._keras.versions import backend_of, is_keras_3
from horovod.common.process_sets import checked, global_process_set


class Variables(list):
    """A list of variables that may also be called, as it was a method of older optimizers."""

    def __call__(self):
        return self


class _Wrapped:
    """Mixed in before an optimizer class. All state is in the optimizer's own attributes and, in the class, ``_hvd_reduction``."""

    def register_local_var(self, var):
        """The gradient of this variable is not reduced."""
        self._hvd_reduction.add_local(var)

    def _aggregate_gradients(self, grads_and_vars):
        """The gradients of these pairs, reduced over the ranks."""
        pairs = list(grads_and_vars)
        return self._hvd_reduction([gradient for gradient, _v in pairs], [variable for _g, variable in pairs])

    @property
    def variables(self):
        """All variables of the optimizer; ``variables()`` gives the same."""
        own = super().variables
        return Variables(own() if callable(own) and not isinstance(own, list) else own)


class _Keras3(_Wrapped):
    def __reduce__(self):
        _function, arguments = super().__reduce__()
        return _unpickled, (self._hvd_base, arguments, self._hvd_made_of, list(self._hvd_reduction.local))


class Keras3(_Keras3):
    """Reduces where Keras 3 is about to clip gradients: after accumulation, before anything else."""

    def _backend_apply_gradients(self, grads, trainable_variables):
        # Not by assignment: Keras would take them for variables of the optimizer.
        self.__dict__["_hvd_variables"] = list(trainable_variables)
        return super()._backend_apply_gradients(grads, trainable_variables)

    def _clip_gradients(self, grads):
        variables = self._hvd_variables
        if variables is None or len(variables) != len(grads):
            raise RuntimeError(f"DistributedOptimizer: {len(grads)} gradients were given to be clipped, not as many as variables")
        return super()._clip_gradients(self._hvd_reduction(grads, variables, self._hvd_factor))


class Keras3LossScale(_Keras3):
    """Reduces the scaled gradients first, so that all ranks agree whether they are finite."""

    def apply(self, grads, trainable_variables=None):
        grads = list(grads)
        variables = list(self._trainable_variables if trainable_variables is None else trainable_variables)
        return super().apply(self._hvd_reduction(grads, variables), trainable_variables)


class Keras2(_Wrapped):
    """Reduces in apply_gradients, unless the caller says that the gradients are aggregated already."""

    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        """As the optimizer's own, with gradients reduced over the ranks; with backward_passes_per_step their sums, every so
        many calls."""
        if "_hvd_sums" not in self.__dict__:
            self.__dict__["_hvd_sums"] = self._hvd_new_sums()
        sums = self._hvd_sums
        if sums is None:
            return self._hvd_apply(grads_and_vars, *args, **kwargs)

        def apply(pairs):
            self._hvd_apply(pairs, *args, **kwargs)
            return self.iterations.read_value()

        return sums.add(grads_and_vars, apply, lambda: self.iterations.assign_add(1))

    def _hvd_apply(self, grads_and_vars, *args, **kwargs):
        pairs = list(grads_and_vars)
        aggregated = kwargs.get("skip_gradients_aggregation") or not kwargs.get("experimental_aggregate_gradients", True)
        if not aggregated:
            reduced = self._aggregate_gradients(pairs)
            pairs = [(gradient, variable) for gradient, (_g, variable) in zip(reduced, pairs)]
        if hasattr(super(), "_aggregate_gradients"):  # an optimizer of keras.optimizers.legacy, which would call ours
            kwargs["experimental_aggregate_gradients"] = False
        return super().apply_gradients(pairs, *args, **kwargs)

    def get_gradients(self, loss, params):
        """As the optimizer's own in TensorFlow 1's graphs, reduced over the ranks."""
        return self._hvd_reduction(super().get_gradients(loss, params), params)


def wrap(keras, optimizer, name, backward_passes_per_step, average_aggregated_gradients, **arguments):
    """The optimizer itself, which reduces gradients over the ranks from now on: its class becomes one of the same name.

    So there is no other object that would train without the ranks, and who holds the optimizer already has the right one. What
    the class needs belongs to the class: objects that ``from_config`` or its constructor make reduce, too.
    """
    base = type(optimizer)
    if isinstance(optimizer, type) or not hasattr(optimizer, "apply_gradients"):
        raise TypeError(f"DistributedOptimizer: {optimizer!r} is not an optimizer of Keras; pass one, as keras.optimizers.SGD(0.1)")
    if issubclass(base, _Wrapped):
        raise ValueError("DistributedOptimizer: the optimizer is a DistributedOptimizer already")
    if backward_passes_per_step <= 0:
        raise ValueError(f"DistributedOptimizer: backward_passes_per_step is {backward_passes_per_step}, not above 0")
    checked(arguments.get("process_set", global_process_set), "DistributedOptimizer")
    details = {
        "__module__": base.__module__,
        "__doc__": base.__doc__,
        "_hvd_base": base,
        "_hvd_made_of": (name, backward_passes_per_step, average_aggregated_gradients, arguments),
        "_hvd_reduction": reduction_for(backend_of(keras), **arguments),
        "_hvd_variables": None,
        # Keras divides the sum of several passes by their number.
        "_hvd_factor": 1.0 if average_aggregated_gradients else float(backward_passes_per_step),
    }
    if not is_keras_3(keras):
        details["_hvd_new_sums"] = lambda _optimizer: _sums(backward_passes_per_step, average_aggregated_gradients, arguments)
    else:
        if backward_passes_per_step > 1:
            _accumulate(optimizer, backward_passes_per_step)
        compilation.keep_out_of_xla(keras, is_distributed)
    object.__setattr__(optimizer, "__class__", type(base.__name__, (_mixin(keras, optimizer), base), details))
    if name is not None:
        optimizer.__dict__["name" if is_keras_3(keras) else "_name"] = name  # not by assignment, which Keras watches
    return optimizer


def _unpickled(base, arguments, made_of, local):
    """What pickling and copying an optimizer of Keras 3 makes: a DistributedOptimizer again."""
    import keras

    name, passes, average, options = made_of
    optimizer = base._unpickle_model(*arguments)
    optimizer.gradient_accumulation_steps = None  # wrapping sets it
    wrapped = wrap(keras, optimizer, name, passes, average, **options)
    wrapped._hvd_reduction.local.update(local)
    return wrapped


def _mixin(keras, optimizer):
    if not is_keras_3(keras):
        return Keras2
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return Keras3LossScale
    return Keras3


def _sums(passes, average, arguments):
    """What sums the gradients of several calls for Keras 2; None if every call is for itself."""
    if passes == 1:
        return None
    from horovod.tensorflow._aggregation import PassSums

    return PassSums(passes, average, arguments.get("sparse_as_dense", False))


def _accumulate(optimizer, passes):
    """Gradients of so many calls are summed before they are reduced: by Keras 3's own means."""
    if optimizer.gradient_accumulation_steps:
        raise ValueError("DistributedOptimizer: the optimizer has gradient_accumulation_steps; backward_passes_per_step is the same")
    if optimizer.built:
        raise ValueError("DistributedOptimizer: backward_passes_per_step above 1 needs an optimizer that has no state yet")
    optimizer.gradient_accumulation_steps = passes


def is_distributed(optimizer):
    """Whether the optimizer, or one inside of it, reduces gradients over the ranks."""
    inner = getattr(optimizer, "inner_optimizer", None)
    return isinstance(optimizer, _Wrapped) or (inner is not None and is_distributed(inner))
