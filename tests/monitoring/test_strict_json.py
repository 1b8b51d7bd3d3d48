import json
import math

from elastic_keras.monitoring import strict_json


def test_what_is_not_finite_becomes_null():
    made = strict_json.dumps({"a": [math.nan, (1, -math.inf)], "b": 2.5})
    assert json.loads(made) == {"a": [None, [1, None]], "b": 2.5}
