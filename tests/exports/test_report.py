import json

from elastic_keras.exports.report import make_report
from tests.exports import cases


def test_says_what_an_unknown_id_is(tmp_path):
    trained = cases.CASES["subclassed"].train(tmp_path)
    said = make_report(
        trained.snapshot, {"keras": {}}, ["a note"], trained.config
    )
    json.dumps(said)
    assert (said["job_id"], said["step"]) == ("job", 3)
    assert said["notes"] == ["a note"]
    assert set(said["features"]["dict"]) == {"user", "item"}
    items = said["tables"][1]
    assert (items["name"], items["dim"]) == ("items", 4)
    assert items["rows"] == len(cases.KNOWN)
    assert items["unknown_id"] == {
        "distribution": "truncated_normal",
        "a": 0.0,
        "b": 0.05,
        "seed": 5,
        "table_index": 1,
    }


def test_the_evaluation_is_of_these_parameters(tmp_path):
    trained = cases.CASES["subclassed"].train(tmp_path)
    path = trained.job_dir / "result.json"

    def evaluation(**result):
        path.write_text(json.dumps(result))
        return make_report(trained.snapshot, {}, [], trained.config)[
            "evaluation"
        ]

    last = {"step": 3, "epoch": 1, "values": {"auc": 0.5}}
    name = f"snapshots/{trained.snapshot.path.name}"
    assert evaluation(snapshot=name, evaluations=[{}, last]) == last
    # Of another snapshot, of an earlier step, of none.
    assert evaluation(snapshot="other", evaluations=[last]) is None
    before = {**last, "step": 2}
    assert evaluation(snapshot=name, evaluations=[before]) is None
    assert evaluation() is None
    path.write_text("{")
    assert (
        make_report(trained.snapshot, {}, [], trained.config)["evaluation"]
        is None
    )
