# SPDX-License-Identifier: Apache-2.0
"""TorchState: models, optimizers and samplers that are committed and restored with the other objects of a program."""

import copy

import torch

from horovod._objects import broadcast_object
from horovod.common import basics, elastic
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.functions import broadcast_optimizer_state, broadcast_parameters


class StateHandler:
    """How a value of some type is kept: ``save``, ``restore``, ``sync``; derive from it and register it for types of your own."""

    def __init__(self, value):
        self.value = value

    def save(self):
        """Keeps a copy of the value's state."""
        raise NotImplementedError(f"{type(self).__name__}.save")

    def restore(self):
        """Goes back to the copy."""
        raise NotImplementedError(f"{type(self).__name__}.restore")

    def sync(self):
        """Gives every rank the state of rank 0."""
        raise NotImplementedError(f"{type(self).__name__}.sync")

    def set_value(self, value):
        """Another value takes the place of this one."""
        self.value = value
        self.save()


class _DictHandler(StateHandler):
    """Of values with ``state_dict`` and ``load_state_dict``."""

    def __init__(self, value):
        super().__init__(value)
        self.save()

    def save(self):
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self):
        self.value.load_state_dict(copy.deepcopy(self._saved))


class ModelStateHandler(_DictHandler):
    """A model: its parameters and buffers."""

    def sync(self):
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(_DictHandler):
    """An optimizer, wrapped or not. What is in ``.grad`` when it is restored came from a step that failed, and is dropped."""

    def restore(self):
        super().restore()
        if hasattr(self.value, "forget_step"):
            self.value.forget_step()
        for group in self.value.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def sync(self):
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class SamplerStateHandler(_DictHandler):
    """An ElasticSampler: epoch and position."""

    def sync(self):
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), 0))
        self.save()


_registry = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry():
    """The list of pairs of a type and the handler for its values; the first pair that fits counts."""
    return _registry


def set_handler_registry(registry):
    """Replaces the list of ``get_handler_registry``, for states that are made from now on."""
    global _registry
    _registry = registry


def _handler_class(value):
    return next((handler for kind, handler in _registry if isinstance(value, kind)), None)


class TorchState(elastic.ObjectState):
    """A model, an optimizer, samplers and other objects by name: ``TorchState(model=net, optimizer=opt, epoch=0)``.

    Values with a handler, which are by default modules, optimizers and ElasticSamplers, are saved, restored and sent by it. All
    others are objects that pickle can send. A value with a handler that is assigned anew is saved at once.
    """

    def __init__(self, model=None, optimizer=None, **kwargs):
        values = {**kwargs, "model": model, "optimizer": optimizer}
        handled = {name: _handler_class(value) for name, value in values.items()}
        self._handlers = {}
        others = {name: value for name, value in values.items() if handled[name] is None and (name in kwargs or value is not None)}
        super().__init__(broadcast_object, basics.rank, **others)
        self._handlers = {name: handler(values[name]) for name, handler in sorted(handled.items()) if handler is not None}
        for name, handler in self._handlers.items():
            super().__setattr__(name, handler.value)

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        handler = vars(self).get("_handlers", {}).get(name)
        if handler is not None:
            handler.set_value(value)

    def save(self):
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self):
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self):
        for handler in self._handlers.values():
            handler.sync()
        super().sync()

    def reset(self):
        for handler in self._handlers.values():
            if isinstance(handler.value, ElasticSampler):
                handler.value.reset()
