"""Who may join."""

import dataclasses

import pytest

from elastic_keras.signature import (
    DenseSpec,
    ModelSignature,
    OptimizerSpec,
    TableSpec,
)
from elastic_keras.wire.rpc import PROTOCOL_VERSION, Refused, check_join

SIGNATURE = ModelSignature(
    seed=1,
    optimizers=(OptimizerSpec("adam", 0.1),),
    dense=(DenseSpec("dense/kernel", (3, 4)), DenseSpec("dense/bias", (4,))),
    tables=(TableSpec("user", 8),),
)


def _join(job_id="a", version=PROTOCOL_VERSION, **options):
    check_join(job_id, version, expected_job_id="a", **options)


def _refusal(**options) -> str:
    with pytest.raises(Refused) as caught:
        _join(**options)
    assert caught.value.code == "FAILED_PRECONDITION"
    return caught.value.message


def test_the_same_job_version_and_model_may_join():
    text = SIGNATURE.to_json()
    _join(signature=text, expected_signature=text)
    _join(signature=text)
    _join(expected_signature=text)


def test_another_job():
    assert _refusal(job_id="b").endswith("Received: job_id='b'")


def test_another_version():
    message = _refusal(version=PROTOCOL_VERSION + 1)
    assert f"protocol_version={PROTOCOL_VERSION + 1}" in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"dense": (SIGNATURE.dense[0], DenseSpec("dense/bias", (5,)))},
            "model.dense[1] (dense/bias).shape[0] is 4. Received: 5",
        ),
        (
            {"dense": SIGNATURE.dense[:1]},
            "model.dense has 2 entries. Received: 1 entries",
        ),
        (
            {"tables": (TableSpec("item", 8),)},
            'model.tables[0] (user).name is "user". Received: "item"',
        ),
        (
            {"optimizers": (OptimizerSpec("sgd", 0.1),)},
            'model.optimizers[0] (adam).name is "adam". Received: "sgd"',
        ),
        ({"seed": 2}, "model.seed is 1. Received: 2"),
    ],
)
def test_another_model_is_named(change, message):
    other = dataclasses.replace(SIGNATURE, **change)
    assert message in _refusal(
        signature=other.to_json(), expected_signature=SIGNATURE.to_json()
    )


def test_a_signature_that_is_no_json():
    assert "not JSON" in _refusal(
        signature="{", expected_signature=SIGNATURE.to_json()
    )
