"""Who may speak with a server that has a certificate."""

import dataclasses

import pytest
import trustme

from elastic_keras.config import ConfigError, WireOptions
from elastic_keras.wire import rpc
from elastic_keras.wire.proto import ps_pb2
from tests.wire.conftest import _tcp_address
from tests.wire.stand_ins import SHARD, ShardStandIn

# A handshake that fails is tried again for as long as there is time.
REFUSALS = ("UNAVAILABLE", "UNAUTHENTICATED", "DEADLINE_EXCEEDED")


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


def write(folder, authority, *names) -> WireOptions:
    """Issues a certificate and returns the options that name its files."""
    issued = authority.issue_cert(*names)
    files = {
        name: str(folder / f"{name}.pem") for name in ("ca", "cert", "key")
    }
    authority.cert_pem.write_to_path(files["ca"])
    issued.private_key_pem.write_to_path(files["key"])
    for place, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(files["cert"], append=place > 0)
    return WireOptions(
        transport="tcp",
        tls_cert=files["cert"],
        tls_key=files["key"],
        tls_ca=files["ca"],
    )


@pytest.fixture
def options(tmp_path, authority):
    return write(tmp_path, authority, "127.0.0.1")


def answers(client, seconds=3.0) -> bool:
    """Whether a call comes through."""
    try:
        client.call(
            "InitDense",
            ps_pb2.InitDenseRequest(),
            timeout=seconds,
            retry_for=0,
            wait_for_ready=False,
        )
    except rpc.RpcError as error:
        if error.code not in REFUSALS:
            raise
        return False
    return True


@pytest.fixture
def start(serve):
    def started(options, **more) -> str:
        address = _tcp_address()
        tls = rpc.read_tls(options)
        serve(ShardStandIn(), SHARD, address, tls=tls, **more)
        return address

    return started


def test_a_call_over_tls(start, connect, options):
    address = start(options)
    assert answers(connect(address, SHARD, tls=rpc.read_tls(options)))


def test_without_tls_nobody_comes_in(start, connect, options):
    assert not answers(connect(start(options), SHARD))


def test_the_token_counts_under_tls_as_well(start, connect, options):
    address = start(options, token="secret")
    tls = rpc.read_tls(options)
    assert not answers(connect(address, SHARD, tls=tls))
    assert answers(connect(address, SHARD, tls=tls, token="secret"))


def test_a_server_of_another_authority_is_not_trusted(
    start, connect, options, tmp_path
):
    folder = tmp_path / "other"
    folder.mkdir()
    other = write(folder, trustme.CA(), "127.0.0.1")
    address = start(other)
    assert not answers(connect(address, SHARD, tls=rpc.read_tls(options)))


def test_a_server_with_another_name_is_not_trusted_unless_it_is_told(
    start, connect, tmp_path, authority
):
    named = write(tmp_path, authority, "shard.example")
    address = start(named)
    assert not answers(connect(address, SHARD, tls=rpc.read_tls(named)))
    told = dataclasses.replace(named, tls_name="shard.example")
    assert answers(connect(address, SHARD, tls=rpc.read_tls(told)))


def test_with_mutual_tls_callers_show_theirs(start, connect, options):
    mutual = dataclasses.replace(options, tls_mutual=True)
    address = start(mutual)
    assert not answers(connect(address, SHARD, tls=rpc.read_tls(options)))
    assert answers(connect(address, SHARD, tls=rpc.read_tls(mutual)))


def test_no_tls_without_a_certificate():
    assert rpc.read_tls(WireOptions()) is None


def test_the_key_is_not_shown(options):
    assert "PRIVATE" not in repr(rpc.read_tls(options))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tls_key": ""}, "needs --tls_cert and --tls_key"),
        ({"tls_cert": ""}, "needs --tls_cert and --tls_key"),
        ({"transport": "unix"}, "add --transport=tcp"),
    ],
)
def test_options_that_do_not_fit(options, changes, message):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(options, **changes)


@pytest.mark.parametrize("name", ["tls_cert", "tls_key", "tls_ca"])
def test_files_that_are_none(options, name, tmp_path):
    broken = tmp_path / "broken.pem"
    broken.write_text("nothing")
    for path in (broken, tmp_path / "absent.pem"):
        wrong = dataclasses.replace(options, **{name: str(path)})
        with pytest.raises(ConfigError, match="tls_"):
            rpc.read_tls(wrong)


def test_a_key_of_another_certificate(options, tmp_path, authority):
    folder = tmp_path / "other"
    folder.mkdir()
    other = write(folder, authority, "127.0.0.1")
    wrong = dataclasses.replace(options, tls_key=other.tls_key)
    with pytest.raises(ConfigError, match="its own private key"):
        rpc.read_tls(wrong)
