"""What a dataset's graph draws at random, and what it runs in Python."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

# Random ops whose next draw depends on the draws before it.
_DRAWS = re.compile(
    "Multinomial|Random(Crop|Gamma|Poisson|Shuffle|StandardNormal|Uniform)"
    "|SampleDistorted|Stateful|.*(CandidateSampler|TruncatedNormal)"
)
_NO_DRAWS = re.compile("Stateless|RandomShuffleQueue|StatefulPartitionedCall")
# A generator keeps its state in a variable, which these ops advance.
_GENERATOR = re.compile("RngSkip|RngReadAndSkip")
_PARALLEL = re.compile("Parallel|.*MapAndBatch|ExperimentalMapAndBatch")


def draws(graph: Any) -> bool:
    """Whether a graph, or a function in it, draws random numbers.

    Args:
        graph: A `FuncGraph`.
    """
    return any(map(_is_draw, _all_nodes(graph)))


def _all_nodes(graph: Any) -> list[Any]:
    definition = graph.as_graph_def()
    nodes = list(definition.node)
    for function in definition.library.function:
        nodes += function.node_def
    return nodes


def runs_generator(graph: Any) -> bool:
    """Whether a graph, or a function in it, runs a Python generator.

    Args:
        graph: A `FuncGraph` that makes a dataset.
    """
    return any(node.op == "GeneratorDataset" for node in _all_nodes(graph))


def draws_in_parallel(graph: Any) -> bool:
    """Whether calls that a dataset runs in parallel draw random numbers.

    Which call draws first is then a matter of chance.

    Args:
        graph: A `FuncGraph` that makes a dataset.
    """
    definition = graph.as_graph_def()
    functions = {
        function.signature.name: function.node_def
        for function in definition.library.function
    }
    nodes = list(definition.node)
    for function in functions.values():
        nodes += function
    called = {
        name
        for node in nodes
        if _PARALLEL.match(node.op)
        for name in _called(node)
    }
    return any(map(_is_draw, _reachable(called, functions)))


def _is_draw(node: Any) -> bool:
    if _GENERATOR.match(node.op):
        return True
    return bool(_DRAWS.match(node.op)) and not _NO_DRAWS.match(node.op)


def _called(node: Any) -> Iterator[str]:
    for value in node.attr.values():
        if value.func.name:
            yield value.func.name
        yield from (function.name for function in value.list.func)


def _reachable(
    names: Iterable[str], functions: dict[str, Any]
) -> Iterator[Any]:
    """Yields the nodes of functions and of all that these call."""
    waiting, seen = list(names), set(names)
    while waiting:
        for node in functions.get(waiting.pop(), ()):
            yield node
            for name in (node.op, *_called(node)):
                if name in functions and name not in seen:
                    seen.add(name)
                    waiting.append(name)
