import pytest

from elastic_keras.config import ConfigError
from elastic_keras.monitoring.profile_option import profiled_steps


def test_two_steps():
    assert profiled_steps("20, 30") == (20, 30)
    assert profiled_steps("7,7") == (7, 7)
    assert profiled_steps("") is None


@pytest.mark.parametrize("text", ["5", "0,3", "4,3", "a,b", "1,2,3", "1;2"])
def test_anything_else_is_refused(text):
    with pytest.raises(ConfigError, match=f"Received: profile_steps='{text}'"):
        profiled_steps(text)
