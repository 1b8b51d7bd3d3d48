"""Every option: its type, its bounds, its text."""

import dataclasses
import json

import pytest

from elastic_keras import config
from elastic_keras.config import ConfigError, JobConfig

OPTIONS = [field for _, field in config.all_options()]


def test_every_option_has_one_name():
    names = [field.name for field in OPTIONS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("field", OPTIONS, ids=lambda field: field.name)
def test_every_option_is_described_and_its_default_valid(field):
    assert field.metadata["help"].endswith(".")
    default = field.default
    assert type(default) in (str, int, float, bool)
    made = JobConfig.from_options(**{field.name: default})
    assert made == JobConfig()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("seed", True, "of type int"),
        ("seed", 1.0, "of type int"),
        ("seed", "1", "of type int"),
        ("seed", -1, "at least 0"),
        ("seed", 1 << 63, "finite"),
        ("seed", 10**400, "finite"),
        ("shuffle", 1, "of type bool"),
        ("job_dir", None, "of type str"),
        ("rpc_timeout_secs", True, "of type float"),
        ("rpc_timeout_secs", 0.0, "at least 0.1"),
        ("rpc_timeout_secs", float("nan"), "finite"),
        ("rpc_timeout_secs", float("inf"), "finite"),
        ("rpc_timeout_secs", 10**400, "finite"),
        ("num_workers", 0, "at least 1"),
        ("port", 65536, "at most 65535"),
        ("max_message_mb", 2048, "at most 2047"),
        ("minibatch_size", (1 << 20) + 1, "at most 1048576"),
        ("wire_dtype", "float64", "one of float32, bfloat16, float16"),
        ("staleness_policy", "", "one of wait, recompute"),
    ],
)
def test_wrong_values_are_named(name, value, message):
    with pytest.raises(ConfigError, match=f"--{name} takes .*{message}") as e:
        JobConfig.from_options(**{name: value})
    assert str(e.value).endswith(f"Received: {name}={value!r}")


def test_whole_numbers_are_floats_too():
    made = JobConfig.from_options(rpc_timeout_secs=5)
    assert made.wire.rpc_timeout_secs == 5.0


def test_unknown_options_are_named():
    with pytest.raises(ConfigError, match="Received: num_wrokers=2"):
        JobConfig.from_options(num_wrokers=2)


def test_options_reach_their_groups():
    made = JobConfig.from_options(num_ps=3, max_staleness=4, seed=7)
    assert made.cluster.num_ps == 3
    assert made.staleness.max_staleness == 4
    assert made.model.seed == 7
    assert made.training == JobConfig().training


def test_json_round_trip():
    made = dataclasses.replace(
        JobConfig.from_options(training_data="a,ü", num_ps=2, csv_header=True),
        job_id="j",
        master_address="unix:/m",
        ps_addresses=("unix:/a", "127.0.0.1:5"),
    )
    assert JobConfig.from_json(made.to_json()) == made


def _raw(**changes) -> str:
    raw = json.loads(JobConfig().to_json())
    raw.update(changes)
    return json.dumps(raw)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        "{}",
        "null",
        "[" * 100_000,
        _raw(model=3),
        _raw(model={"sede": 1}),
        _raw(model={"seed": -1}),
        _raw(job_id=3),
        _raw(ps_addresses="unix:/a"),
        _raw(ps_addresses=[1]),
        _raw(ps_addresses=None),
    ],
)
def test_other_json_is_refused(text):
    with pytest.raises(ConfigError):
        JobConfig.from_json(text)
