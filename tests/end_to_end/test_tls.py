"""A whole job whose processes speak TLS with each other."""

import trustme

from tests.end_to_end.harness import elastic_keras, train, write_clicks


def certificates(folder):
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued.private_key_and_cert_chain_pem.write_to_path(folder / "own.pem")
    return [
        "--transport=tcp",
        f"--tls_cert={folder / 'own.pem'}",
        f"--tls_key={folder / 'own.pem'}",
        f"--tls_ca={folder / 'ca.pem'}",
        "--tls_mutual",
    ]


def test_train_and_evaluate_over_mutual_tls(tmp_path):
    data = tmp_path / "clicks.csv"
    write_clicks(data, 200)
    options = certificates(tmp_path)
    job_dir = tmp_path / "job"
    trained = train(
        job_dir,
        f"--training_data={data}",
        f"--validation_data={data}",
        "--num_workers=2",
        "--num_ps=2",
        *options,
    )
    result = trained.succeeded()
    evaluated = elastic_keras(
        "evaluate",
        f"--job_dir={job_dir}",
        f"--validation_data={data}",
        *options,
        job_dir=job_dir,
    )
    assert evaluated.code == 0, evaluated.err
    for name, value in result["evaluation"].items():
        assert f"{value:.4f}"[:5] in evaluated.out, name
