"""Parameters on the command line."""

import hypothesis
import hypothesis.strategies as st
import pytest

from elastic_keras.config import ConfigError
from elastic_keras.zoo.params import format_params, parse_params

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)


def test_literals_by_name():
    text = 'dim=8; hidden=[64,32]; name="a; b=1"; rate=-1e-3; x=None'
    assert parse_params(text) == {
        "dim": 8,
        "hidden": [64, 32],
        "name": "a; b=1",
        "rate": -0.001,
        "x": None,
    }
    assert parse_params("  ") == {}


# The first text of a fresh checkout is slow: hypothesis makes and caches its
# table of Unicode then.
@hypothesis.settings(
    deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
@hypothesis.given(
    params=st.dictionaries(st.sampled_from(["a", "dim", "x1"]), _VALUES)
)
def test_formatting_is_the_inverse(params):
    assert parse_params(format_params(params)) == params


@pytest.mark.parametrize(
    "text",
    [
        "dim",
        "dim=8, hidden=2",
        "dim=",
        "dim=open('x')",
        "dim=eight",
        "dim=1; dim=2",
        "a.b=1",
        "a=b=1",
        "a, b = 1, 2",
        "import os",
        "dim==8",
        "\0",
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(ConfigError, match="Python literals by name"):
        parse_params(text)


def test_a_value_that_is_no_literal_is_refused():
    with pytest.raises(ConfigError, match="Received"):
        format_params({"a": object()})
    with pytest.raises(ConfigError, match="Received"):
        format_params({"a": {1, 2}.__class__})
