"""Conversion between a vector and the numbers in dicts, lists, dataclasses, tensors and modules."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol, final

import numpy as np
import numpy.typing as npt

from lmma._text import nearest

__all__ = ["Tree", "is_structure"]


@final
class Tree:
    """The mapping between a structure and a vector, used by ``minimize(fun, structure)``.

    A structure consists of dicts, lists, tuples, dataclasses and PyTorch modules. Its leaves are NumPy,
    PyTorch or JAX arrays and Python floats. Anything without floating-point numbers, and module parameters
    that do not require gradients, are constants and stay unchanged.

    Parameters
    ----------
    example : structure
        Defines the form of the structure and the start of the search.
    trainable : callable, optional
        ``trainable(path, leaf) -> bool``: whether to search a leaf; by default all leaves.

    Attributes
    ----------
    n : int
        Length of the vector.
    dtype : numpy.dtype
        float64 if an array has double precision or all leaves are Python floats, otherwise float32.
    slices : dict
        Path, such as ``"layers.0.weight"`` -> slice of the vector.
    shapes : dict
        Path -> shape of the leaf.

    Examples
    --------
    >>> tree = lmma.Tree({"w": np.ones((2, 3)), "b": 0.5, "name": "a layer"})
    >>> tree.encode({"w": np.zeros((2, 3)), "b": 2.0, "name": ""})
    array([0., 0., 0., 0., 0., 0., 2.])
    >>> tree.decode(np.arange(7.0))
    {'w': array([[0., 1., 2.],
           [3., 4., 5.]]), 'b': 6.0, 'name': 'a layer'}
    >>> tree.slices
    {'w': slice(0, 6, None), 'b': slice(6, 7, None)}
    """

    def __init__(self, example: Any, *, trainable: Trainable | None = None) -> None:
        if trainable is not None and not callable(trainable):
            raise TypeError(f"trainable must be a function trainable(path, leaf), got {trainable!r:.60}")
        try:
            self._root = describe_node(example, trainable)
        except RecursionError:
            raise ValueError("a structure must not contain itself, nor be nested too deeply") from None
        self._example: Any = example
        self.slices: dict[str, slice] = {}
        self.n = 0
        for leaf in self._root.leaves():
            if leaf.path in self.slices:
                raise ValueError(f"duplicate path {leaf.path!r}: the paths in a tree must differ")
            leaf.place = slice(self.n, self.n + leaf.size)
            self.slices[leaf.path] = leaf.place
            self.n += leaf.size
        if self.n == 0:
            raise ValueError(
                f"nothing to search in {example!r:.60}: a tree needs floating-point numbers (1.0, not 1), "
                "a module needs parameters that require gradients"
            )
        self.shapes = {leaf.path: leaf.shape for leaf in self.leaves()}
        self.dtype = np.dtype(np.float64 if any(map(_is_double, self.leaves())) else np.float32)
        if all(leaf.kind == "float" for leaf in self.leaves()):
            self.dtype = np.dtype(np.float64)

    def __repr__(self) -> str:
        return f"<Tree: n={self.n} in {len(self.slices)} leaves, {self.dtype.name}>"

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_example": None}  # workers only need the form

    def leaves(self) -> Iterator[Leaf]:
        """Yield the leaves that are searched, in the order of the vector."""
        return self._root.leaves()

    def described(self) -> dict[str, str]:
        """Return a description of each leaf, by path; equal for equal trees."""
        return {leaf.path: leaf.description for leaf in self.leaves()}

    # Structures and vectors

    def encode(self, structure: Any) -> Array:
        """Return the numbers of a structure of this form as a vector of shape (n,)."""
        x = np.empty(self.n, dtype=self.dtype)
        self._root.read(structure, x)
        return x

    def decode(self, vector: npt.ArrayLike) -> Any:
        """Return the structure of a vector; its arrays are views of the vector.

        JAX arrays, and arrays of another dtype or on another device, are copies. Modules are new objects that
        share their constants with the example.
        """
        return self._root.build(self._checked(vector, 1))

    def columns(self, rows: npt.ArrayLike) -> Any:
        """Return the structures of several vectors, one per row, as one structure of stacked arrays.

        Each array has an additional first axis over the rows, as ``vmap`` expects, and is a view as in
        :meth:`decode`. A module is replaced by a dict of its parameters, by name.
        """
        return self._root.build(self._checked(rows, 2), stacked=True)

    def _checked(self, x: npt.ArrayLike, axes: int) -> Array:
        array = np.asarray(x)
        if array.ndim != axes or array.shape[-1] != self.n or array.dtype.kind != "f":
            shape = f"({'rows, ' if axes == 2 else ''}{self.n})"
            raise ValueError(
                f"a vector of this tree must be floats of shape {shape}, got {array.dtype} {array.shape}"
            )
        return array

    # Arguments of a strategy

    def start(self, start: Any = None) -> Array:
        """Return the start vector from a structure or a vector; from the example for None."""
        if start is None:
            if self._example is None:
                raise ValueError("a tree loaded from a pickle has no start values: pass x0")
            start = self._example
        elif isinstance(start, np.ndarray) and start.shape == (self.n,):
            return start.astype(self.dtype)
        x = self.encode(start)
        if not np.all(np.isfinite(x)):
            where = next(path for path, place in self.slices.items() if not np.all(np.isfinite(x[place])))
            raise ValueError(f"x0 must be finite, but {where!r} contains NaN or infinity")
        return x

    def steps(self, sigma0: Any, usual: float | None = None) -> Any:
        """Return step sizes for the vector from a dict of path: step; return anything else unchanged.

        The path of a branch applies to all leaves below it, and the longest path takes precedence. Leaves
        without a path get ``usual``.
        """
        if not isinstance(sigma0, Mapping):
            return sigma0
        steps = self._by_path("sigma0", sigma0, np.nan if usual is None else usual)
        for path, place in self.slices.items():
            if not np.all(np.isfinite(steps[place]) & (steps[place] > 0)):
                problem = "must be positive" if path in sigma0 or usual is not None else "has no entry"
                raise ValueError(f"sigma0 {problem} for {path!r}: give a positive number for each leaf")
        return steps

    def bounds(self, bounds: Any) -> Any:
        """Convert a dict of path: (low, high) to bounds of the vector; return anything else unchanged."""
        if not isinstance(bounds, Mapping):
            return bounds
        sides = [{}, {}]  # type: list[dict[str, Any]]
        for path, pair in _flat(bounds).items():
            try:
                low, high = pair
            except (TypeError, ValueError):
                raise ValueError(f"bounds of {path!r} must be a pair (low, high), got {pair!r:.60}") from None
            sides[0][path] = -np.inf if low is None else low
            sides[1][path] = np.inf if high is None else high
        lower, upper = (
            self._by_path("bounds", side, default)
            for side, default in zip(sides, (-np.inf, np.inf), strict=True)
        )
        return SimpleNamespace(lb=lower, ub=upper)

    def strategy_arguments(self, start: Any = None, sigma0: Any = None) -> dict[str, Any]:
        """Return arguments of a strategy: ``x0, sigma0, dtype``."""
        return {"x0": self.start(start), "sigma0": self.steps(sigma0), "dtype": self.dtype.name}

    def _by_path(self, argument: str, given: Mapping[Any, Any], default: float) -> npt.NDArray[np.float64]:
        """Expand a mapping of paths to a vector.

        Leaves without an entry get ``default``; longer paths take precedence.
        """
        filled = np.full(self.n, default, dtype=np.float64)
        values = _flat(given)
        for path in sorted(values, key=len):  # the longest path overwrites the others
            matching = [leaf for leaf in self.leaves() if f"{leaf.path}.".startswith(f"{path}.")]
            if not matching:
                known = list(self.slices)
                raise ValueError(
                    f"{argument}: no {path!r} in the tree{nearest(path, known)}; it has "
                    f"{', '.join(known[:8])}{', ...' if len(known) > 8 else ''}"
                )
            for leaf in matching:
                numbers = as_numpy(values[path], f"{argument} of {path!r}")
                try:
                    filled[leaf.place] = np.broadcast_to(numbers, leaf.shape).reshape(-1)
                except ValueError:
                    raise ValueError(
                        f"{argument} of {path!r} has shape {numbers.shape}, which cannot be broadcast to "
                        f"{leaf.shape}"
                    ) from None
        return filled


def _is_double(leaf: Leaf) -> bool:
    name = str(leaf.dtype).removeprefix("torch.")
    return leaf.kind != "float" and name in ("float64", "longdouble", "float128")


def _flat(given: Mapping[Any, Any], path: str = "") -> dict[str, Any]:
    """Flatten nested dicts to one dict by path."""
    flat: dict[str, Any] = {}
    for key, value in given.items():
        name = f"{path}.{key}" if path else str(key)
        flat |= _flat(value, name) if isinstance(value, Mapping) else {name: value}
    return flat


Array = npt.NDArray[np.floating]
Trainable = Callable[[str, Any], bool]


class Node(Protocol):
    """Interface of the parts of a structure: leaves, containers and constants."""

    def leaves(self) -> Iterator[Leaf]:
        """Yield the leaves, in the order of the vector."""
        ...

    def read(self, value: Any, out: Array) -> None:
        """Write the numbers of ``value`` to their places in the vector ``out``."""
        ...

    def build(self, x: Array, *, stacked: bool = False) -> Any:
        """Return the part for the vector ``x``; if ``stacked``, for rows, with an additional first axis."""
        ...


@final
@dataclass(eq=False)
class Leaf:
    """Numbers that are searched: a NumPy, PyTorch or JAX array, or a Python float."""

    path: str
    kind: str  # "float", "numpy", "torch" or "jax"
    shape: tuple[int, ...]
    dtype: Any  # the framework's dtype
    device: Any = None  # of a tensor
    place: slice = field(default_factory=lambda: slice(0, 0))  # in the vector, set by the tree

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def description(self) -> str:
        """The dtype and shape of the leaf as text, the same in every process."""
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
        """Return the leaf for ``x``: a view of ``x`` if kind and dtype allow it."""
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
    """A part that is not searched and stays unchanged."""

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
    """A container; ``split`` returns its parts and ``join`` builds a container from parts."""

    path: str
    keys: list[str]
    children: Sequence[Node]
    split: Callable[[Any], Sequence[Any]]
    join: Callable[[list[Any], bool], Any]  # (parts, stacked)

    def leaves(self) -> Iterator[Leaf]:
        """Yield the leaves of all parts."""
        for child in self.children:
            yield from child.leaves()

    def read(self, value: Any, out: Array) -> None:
        """Write the numbers of all parts to their places in ``out``."""
        parts = self.split(value)
        for child, part in zip(self.children, parts, strict=True):
            child.read(part, out)

    def build(self, x: Array, *, stacked: bool = False) -> Any:
        """Return the container for ``x``."""
        return self.join([child.build(x, stacked=stacked) for child in self.children], stacked)


def imported(name: str) -> ModuleType | None:
    """Return a framework module if the user has imported it, otherwise None."""
    module = sys.modules.get(name)
    return module if module is not None and hasattr(module, "__version__") else None


def describe_node(value: Any, trainable: Trainable | None, path: str = "") -> Node:
    """Return the node that describes ``value``, recursively."""
    if is_module(value):
        return _module(value, trainable, path)
    if isinstance(value, Mapping):
        keys = list(value)
        if odd := [key for key in keys if not isinstance(key, str | int)]:
            raise TypeError(
                f"keys of a tree must be strings or integers, got {odd[0]!r:.60}{_location(path)}"
            )
        return _branch(
            _SplitMapping(keys, path), _mapping_like(value), keys, list(value.values()), trainable, path
        )
    if isinstance(value, list | tuple):
        kind: Any = type(value)
        entries = _SplitSequence(len(value), path)
        if hasattr(value, "_fields"):  # a namedtuple
            return _branch(entries, kind._make, kind._fields, value, trainable, path)
        return _branch(entries, kind, range(len(value)), value, trainable, path)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        parts = [getattr(value, name) for name in names]
        return _branch(
            _SplitDataclass(names, path), _JoinDataclass(value, names), names, parts, trainable, path
        )
    return _leaf(value, trainable, path or "x")


def is_module(value: Any) -> bool:
    """Return whether ``value`` is an ``nn.Module``."""
    torch = imported("torch")
    return torch is not None and hasattr(torch, "nn") and isinstance(value, torch.nn.Module)


def is_structure(value: Any) -> bool:
    """Return whether ``value``, passed as x0, is a structure rather than a vector."""
    if isinstance(value, Mapping) or is_module(value):
        return True
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return True
    if isinstance(value, list | tuple):
        try:
            return any(is_structure(entry) or _has_axes(entry) for entry in value)
        except RecursionError:  # it contains itself, which Tree reports
            return True
    return False


def as_numpy(value: Any, path: str) -> Array:
    """Return the numbers of a leaf as an array, without a copy for a CPU tensor."""
    torch = imported("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = (value.float() if value.dtype in (torch.bfloat16, torch.float16) else value).numpy()
    try:
        numbers = np.asarray(value)
        numbers = numbers if numbers.dtype.kind == "f" else numbers.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{path} must be numeric, got {value!r:.60}") from None
    return numbers


def _has_axes(value: Any) -> bool:
    return getattr(value, "ndim", 0) > 0


def _location(path: str) -> str:
    return f" at {path!r}" if path else ""


def _joined(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _branch(split: Any, join: Any, keys: Any, parts: Any, trainable: Trainable | None, path: str) -> Branch:
    paths = [_joined(path, key) for key in keys]
    children = [describe_node(part, trainable, each) for part, each in zip(parts, paths, strict=True)]
    return Branch(path, paths, children, split, _Join(join))


@dataclass
class _Join:
    """Adapter for containers that are joined alike whether or not parts are stacked."""

    join: Callable[[list[Any]], Any]

    def __call__(self, parts: list[Any], stacked: bool) -> Any:
        return self.join(parts)


# Splitting containers


@dataclass
class _SplitMapping:
    keys: list[Any]
    path: str

    def __call__(self, value: Any) -> list[Any]:
        if not isinstance(value, Mapping):
            raise TypeError(f"expected a dict{_location(self.path)}, got {value!r:.60}")
        if odd := [*(set(value) ^ set(self.keys))]:
            problem = "missing" if odd[0] in self.keys else "unexpected"
            raise ValueError(
                f"structure does not match the tree{_location(self.path)}: {problem} key {odd[0]!r}"
            )
        return [value[key] for key in self.keys]


@dataclass
class _SplitSequence:
    count: int
    path: str

    def __call__(self, value: Any) -> Sequence[Any]:
        if not isinstance(value, list | tuple) or len(value) != self.count:
            raise ValueError(f"expected a sequence of {self.count}{_location(self.path)}, got {value!r:.60}")
        return value


@dataclass
class _SplitDataclass:
    names: list[str]
    path: str

    def __call__(self, value: Any) -> list[Any]:
        if missing := [name for name in self.names if not hasattr(value, name)]:
            raise TypeError(f"expected an attribute {missing[0]!r}{_location(self.path)}, got {value!r:.60}")
        return [getattr(value, name) for name in self.names]


# Joining containers


def _mapping_like(value: Mapping[Any, Any]) -> Callable[[list[Any]], Any]:
    kind: Any = type(value) if isinstance(value, dict) else dict
    if kind is not dict:
        return _JoinMapping(copy.copy(value).fromkeys(value))  # type: ignore[attr-defined]
    return _JoinMapping(dict.fromkeys(value))


@dataclass
class _JoinMapping:
    """Creates mappings of the original type and key order."""

    empty: Any

    def __call__(self, parts: list[Any]) -> Any:
        made = copy.copy(self.empty)
        for key, part in zip(list(made), parts, strict=True):
            made[key] = part
        return made


class _JoinDataclass:
    """Creates dataclass instances without calling ``__init__``."""

    def __init__(self, value: Any, names: list[str]) -> None:
        self.names = names
        self.shell = self([None] * len(names), value)

    def __call__(self, parts: list[Any], shell: Any = None) -> Any:
        made = copy.copy(self.shell if shell is None else shell)
        for name, part in zip(self.names, parts, strict=True):
            object.__setattr__(made, name, part)  # works for frozen ones too
        return made


# Leaves


def _leaf(value: Any, trainable: Trainable | None, path: str) -> Node:
    leaf = _as_leaf(value, path)
    if leaf is None or (trainable is not None and not trainable(path, value)):
        return Constant(value)
    return leaf


def _as_leaf(value: Any, path: str) -> Leaf | None:
    """Return a leaf; None if ``value`` has no floating-point numbers."""
    torch, jax = imported("torch"), imported("jax")
    if torch is not None and isinstance(value, torch.Tensor):
        _check_not_complex(value.is_complex(), path)
        kind, real = "torch", value.is_floating_point()
    elif jax is not None and isinstance(value, jax.Array):
        _check_not_complex(jax.numpy.issubdtype(value.dtype, jax.numpy.complexfloating), path)
        kind, real = "jax", jax.numpy.issubdtype(value.dtype, jax.numpy.floating)
    elif isinstance(value, np.ndarray | np.floating) and not isinstance(value, float):
        _check_not_complex(value.dtype.kind == "c", path)
        if np.any(getattr(value, "mask", False)):
            raise ValueError(f"{path} must not have masked entries: filled(value) replaces them")
        if value.dtype.kind == "O":
            raise TypeError(f"{path} is an array of objects: convert it with numpy.asarray(x, dtype=float)")
        kind, real = "numpy", value.dtype.kind == "f"
    else:
        _check_not_complex(isinstance(value, complex | np.complexfloating), path)
        return Leaf(path, "float", (), float) if isinstance(value, float) else None
    if not real:
        return None
    return Leaf(path, kind, tuple(value.shape), value.dtype, getattr(value, "device", None))


def _check_not_complex(is_complex: Any, path: str) -> None:
    if is_complex:
        raise TypeError(f"{path} is complex: use two leaves, its real and imaginary part")


def _tensor(part: Array, leaf: Leaf) -> Any:
    """Return a tensor that shares memory with ``part`` if device and dtype allow it."""
    torch = sys.modules["torch"]
    if not part.flags.writeable:  # PyTorch has no read-only tensors and would warn
        part = part.view()
        try:
            part.flags.writeable = True
        except ValueError:  # read-only memory
            part = part.copy()
    return torch.from_numpy(part).to(device=leaf.device, dtype=leaf.dtype)


# Modules


def _module(module: Any, trainable: Trainable | None, path: str) -> Branch:
    """Return a branch with the parameters of an ``nn.Module`` that require gradients."""
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
    """Creates modules with new parameters that share all constants with the original."""

    module: Any
    names: list[str]

    def parameters(self, value: Any) -> list[Any]:
        found = dict(value) if isinstance(value, Mapping) else dict(value.named_parameters())
        if missing := [name for name in self.names if name not in found]:
            raise ValueError(f"the module has no parameter {missing[0]!r}, which the tree expects")
        return [found[name] for name in self.names]

    def __call__(self, parts: list[Any], stacked: bool) -> Any:
        if stacked:  # the format of torch.func.functional_call
            return dict(zip(self.names, parts, strict=True))
        nn = sys.modules["torch"].nn
        copies = {id(parameter): parameter for parameter in self.module.parameters()}
        for name, part in zip(self.names, parts, strict=True):
            copies[id(self.module.get_parameter(name))] = nn.Parameter(part)
        return copy.deepcopy(self.module, copies)  # the memo: these count as already copied
