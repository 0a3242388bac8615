"""What a tree is made of: leaves with a place in the vector, constants, and branches that hold them.

PyTorch and JAX are recognised where the user has imported them; nothing here imports either.
"""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Protocol, final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]
Trainable = Callable[[str, Any], bool]


class Node(Protocol):
    """A part of a structure."""

    def leaves(self) -> Iterator[Leaf]:
        """Yield the leaves, in the order of the vector."""
        ...

    def read(self, value: Any, out: Array) -> None:
        """Write the numbers of ``value``, of this form, to their places in the vector ``out``."""
        ...

    def build(self, x: Array, *, stacked: bool = False) -> Any:
        """Return the part that ``x`` stands for; if ``stacked``, of rows, with one more axis in front."""
        ...


@final
@dataclass(eq=False)
class Leaf:
    """Numbers that are searched: an array of NumPy, PyTorch or JAX, or a float of Python."""

    path: str
    kind: str  # "float", "numpy", "torch" or "jax"
    shape: tuple[int, ...]
    dtype: Any  # as the framework has it
    device: Any = None  # of a tensor
    place: slice = field(default_factory=lambda: slice(0, 0))  # in the vector, known to the tree

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def words(self) -> str:
        """The form of the leaf: equal for equal ones, in any process."""
        return f"{str(self.dtype).removeprefix('torch.')} {self.shape}" if self.kind != "float" else "float"

    def leaves(self) -> Iterator[Leaf]:
        """Yield itself."""
        yield self

    def read(self, value: Any, out: Array) -> None:
        """Write the numbers of ``value`` to their place in ``out``."""
        numbers = as_numpy(value, self.path)
        if numbers.shape != self.shape:
            raise ValueError(
                f"{self.path} has shape {numbers.shape}, but {self.shape} in the tree: make a new lmma.Tree"
            )
        out[self.place] = numbers.reshape(-1)

    def build(self, x: Array, *, stacked: bool = False) -> Any:
        """Return the leaf that ``x`` stands for: a view of ``x`` where kind and dtype allow one."""
        part = x[..., self.place]
        if self.kind == "float":
            return part[:, 0] if stacked else float(part[0])
        part = part.reshape((len(x), *self.shape) if stacked else self.shape)
        if self.kind == "torch":
            return _tensor(part, self)
        if self.kind == "jax":
            return sys.modules["jax"].numpy.asarray(part, dtype=self.dtype)
        return part.astype(self.dtype, copy=False)


@final
class Constant:
    """What is not searched: kept as it is."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def leaves(self) -> Iterator[Leaf]:
        """Yield nothing."""
        return iter(())

    def read(self, value: Any, out: Array) -> None:
        """Read nothing."""

    def build(self, x: Array, *, stacked: bool = False) -> Any:
        """Return the value."""
        return self.value


@final
@dataclass(eq=False)
class Branch:
    """A container of parts: ``opened`` takes one like it apart, ``closed`` puts one together."""

    path: str
    keys: list[str]
    children: Sequence[Node]
    opened: Callable[[Any], Sequence[Any]]
    closed: Callable[[list[Any], bool], Any]  # of the parts, and whether they are stacked

    def leaves(self) -> Iterator[Leaf]:
        """Yield the leaves of all parts."""
        for child in self.children:
            yield from child.leaves()

    def read(self, value: Any, out: Array) -> None:
        """Write the numbers of all parts to their places in ``out``."""
        parts = self.opened(value)
        for child, part in zip(self.children, parts, strict=True):
            child.read(part, out)

    def build(self, x: Array, *, stacked: bool = False) -> Any:
        """Return a container like the one described, of the parts that ``x`` stands for."""
        return self.closed([child.build(x, stacked=stacked) for child in self.children], stacked)


def imported(name: str) -> ModuleType | None:
    """Return a framework if the user has imported it."""
    module = sys.modules.get(name)
    return module if module is not None and hasattr(module, "__version__") else None


def described(value: Any, trainable: Trainable | None, path: str = "") -> Node:
    """Return the form of ``value``, part by part."""
    if is_module(value):
        return _module(value, trainable, path)
    if isinstance(value, Mapping):
        keys = list(value)
        if odd := [key for key in keys if not isinstance(key, str | int)]:
            raise TypeError(f"keys of a tree must be texts or integers, got {odd[0]!r:.60}{_at(path)}")
        return _branch(_Items(keys, path), _mapping_like(value), keys, list(value.values()), trainable, path)
    if isinstance(value, list | tuple):
        kind: Any = type(value)
        entries = _Entries(len(value), path)
        if hasattr(value, "_fields"):  # a namedtuple
            return _branch(entries, kind._make, kind._fields, value, trainable, path)
        return _branch(entries, kind, range(len(value)), value, trainable, path)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        parts = [getattr(value, name) for name in names]
        return _branch(_Attributes(names, path), _Refilled(value, names), names, parts, trainable, path)
    return _leaf(value, trainable, path or "x")


def is_module(value: Any) -> bool:
    """Return whether ``value`` is an ``nn.Module``."""
    torch = imported("torch")
    return torch is not None and hasattr(torch, "nn") and isinstance(value, torch.nn.Module)


def is_structure(value: Any) -> bool:
    """Return whether ``value``, given as a start, is a structure rather than a vector of numbers."""
    if isinstance(value, Mapping) or is_module(value):
        return True
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return True
    if isinstance(value, list | tuple):
        return any(is_structure(entry) or _has_axes(entry) for entry in value)
    return False


def as_numpy(value: Any, path: str) -> Array:
    """Return the numbers of a leaf; of a tensor on the CPU without a copy."""
    torch = imported("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = (value.float() if value.dtype in (torch.bfloat16, torch.float16) else value).numpy()
    try:
        numbers = np.asarray(value)
        numbers = numbers if numbers.dtype.kind == "f" else numbers.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{path} must be numbers, got {value!r:.60}") from None
    return numbers


def _has_axes(value: Any) -> bool:
    return getattr(value, "ndim", 0) > 0


def _at(path: str) -> str:
    return f" at {path!r}" if path else ""


def _joined(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _branch(opened: Any, close: Any, keys: Any, parts: Any, trainable: Trainable | None, path: str) -> Branch:
    paths = [_joined(path, key) for key in keys]
    children = [described(part, trainable, each) for part, each in zip(parts, paths, strict=True)]
    return Branch(path, paths, children, opened, _Closed(close))


@dataclass
class _Closed:
    """Puts a container together, whether its parts are stacked or not."""

    close: Callable[[list[Any]], Any]

    def __call__(self, parts: list[Any], stacked: bool) -> Any:
        return self.close(parts)


# Containers, taken apart


@dataclass
class _Items:
    keys: list[Any]
    path: str

    def __call__(self, value: Any) -> list[Any]:
        if not isinstance(value, Mapping):
            raise TypeError(f"the tree has a dict{_at(self.path)}, got {value!r:.60}")
        if odd := [*(set(value) ^ set(self.keys))]:
            lacks = "lacks" if odd[0] in self.keys else "has no place for"
            raise ValueError(f"the structure and its tree differ{_at(self.path)}: one {lacks} {odd[0]!r}")
        return [value[key] for key in self.keys]


@dataclass
class _Entries:
    count: int
    path: str

    def __call__(self, value: Any) -> Sequence[Any]:
        if not isinstance(value, list | tuple) or len(value) != self.count:
            raise ValueError(f"the tree has a sequence of {self.count}{_at(self.path)}, got {value!r:.60}")
        return value


@dataclass
class _Attributes:
    names: list[str]
    path: str

    def __call__(self, value: Any) -> list[Any]:
        if lacking := [name for name in self.names if not hasattr(value, name)]:
            raise TypeError(f"the tree has {lacking[0]!r}{_at(self.path)}, which {value!r:.60} has not")
        return [getattr(value, name) for name in self.names]


# Containers, put together


def _mapping_like(value: Mapping[Any, Any]) -> Callable[[list[Any]], Any]:
    kind: Any = type(value) if isinstance(value, dict) else dict
    if kind is not dict:
        return _Remade(copy.copy(value).fromkeys(value))  # type: ignore[attr-defined]
    return _Remade(dict.fromkeys(value))


@dataclass
class _Remade:
    """Makes dicts of one kind, with the keys in their order."""

    empty: Any

    def __call__(self, parts: list[Any]) -> Any:
        made = copy.copy(self.empty)
        for key, part in zip(list(made), parts, strict=True):
            made[key] = part
        return made


class _Refilled:
    """Makes dataclasses of one kind, whatever their ``__init__`` takes."""

    def __init__(self, value: Any, names: list[str]) -> None:
        self.names = names
        self.shell = self([None] * len(names), value)

    def __call__(self, parts: list[Any], shell: Any = None) -> Any:
        made = copy.copy(self.shell if shell is None else shell)
        for name, part in zip(self.names, parts, strict=True):
            object.__setattr__(made, name, part)  # frozen ones as well
        return made


# Leaves


def _leaf(value: Any, trainable: Trainable | None, path: str) -> Node:
    leaf = _as_leaf(value, path)
    if leaf is None or (trainable is not None and not trainable(path, value)):
        return Constant(value)
    return leaf


def _as_leaf(value: Any, path: str) -> Leaf | None:
    """Return what is searched; None for what is not made of floating-point numbers."""
    torch, jax = imported("torch"), imported("jax")
    if torch is not None and isinstance(value, torch.Tensor):
        _refuse_complex(value.is_complex(), path)
        kind, real = "torch", value.is_floating_point()
    elif jax is not None and isinstance(value, jax.Array):
        _refuse_complex(jax.numpy.issubdtype(value.dtype, jax.numpy.complexfloating), path)
        kind, real = "jax", jax.numpy.issubdtype(value.dtype, jax.numpy.floating)
    elif isinstance(value, np.ndarray | np.floating) and not isinstance(value, float):
        _refuse_complex(value.dtype.kind == "c", path)
        if value.dtype.kind == "O":
            raise TypeError(f"{path} is an array of objects: make it numbers, numpy.asarray(x, dtype=float)")
        kind, real = "numpy", value.dtype.kind == "f"
    else:
        _refuse_complex(isinstance(value, complex | np.complexfloating), path)
        return Leaf(path, "float", (), float) if isinstance(value, float) else None
    if not real:
        return None
    return Leaf(path, kind, tuple(value.shape), value.dtype, getattr(value, "device", None))


def _refuse_complex(is_complex: Any, path: str) -> None:
    if is_complex:
        raise TypeError(f"{path} is complex: search its real and imaginary part, two leaves")


def _tensor(part: Array, leaf: Leaf) -> Any:
    """Return a tensor that shares memory with ``part`` where device and dtype allow it."""
    torch = sys.modules["torch"]
    if not part.flags.writeable:  # of which PyTorch would warn: its tensors can always be written to
        part = part.view()
        try:
            part.flags.writeable = True
        except ValueError:  # memory that nobody may write to
            part = part.copy()
    return torch.from_numpy(part).to(device=leaf.device, dtype=leaf.dtype)


# Modules


def _module(module: Any, trainable: Trainable | None, path: str) -> Branch:
    """Return the parameters of an ``nn.Module`` that require gradients; what is frozen stays as it is."""
    searched: dict[str, Node] = {}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad or trainable is not None:
            node = _leaf(parameter, trainable, _joined(path, name))
            if isinstance(node, Leaf):
                searched[name] = node
    names = list(searched)
    form = _ModuleForm(module, names)
    keys = [_joined(path, name) for name in names]
    return Branch(path, keys, list(searched.values()), form.parameters, form)


@dataclass
class _ModuleForm:
    """Makes modules like one, with parameters of their own; what is not searched they share with it."""

    module: Any
    names: list[str]

    def parameters(self, value: Any) -> list[Any]:
        found = dict(value) if isinstance(value, Mapping) else dict(value.named_parameters())
        if lacking := [name for name in self.names if name not in found]:
            raise ValueError(f"the module has no parameter {lacking[0]!r}, which the tree has")
        return [found[name] for name in self.names]

    def __call__(self, parts: list[Any], stacked: bool) -> Any:
        if stacked:  # as torch.func.functional_call takes them
            return dict(zip(self.names, parts, strict=True))
        nn = sys.modules["torch"].nn
        own = {id(parameter): parameter for parameter in self.module.parameters()}
        for name, part in zip(self.names, parts, strict=True):
            own[id(self.module.get_parameter(name))] = nn.Parameter(part)
        return copy.deepcopy(self.module, own)  # which takes these for copies already made
