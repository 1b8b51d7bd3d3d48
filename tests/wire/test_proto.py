"""The committed protobuf modules are in step with protos/*.proto."""

import pathlib
import subprocess
import sys

import pytest
from google.protobuf import descriptor_pb2

from elastic_keras.wire.proto import master_pb2, ps_pb2, tensor_pb2

ROOT = pathlib.Path(__file__).parents[2]
VIRTUAL = "elastic_keras/wire/proto"
MODULES = {"tensor": tensor_pb2, "ps": ps_pb2, "master": master_pb2}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    """Returns what this environment's protoc makes of the files, by name."""
    pytest.importorskip("grpc_tools", reason="protoc comes with grpcio-tools")
    out = tmp_path_factory.mktemp("protos") / "set"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-I{VIRTUAL}={ROOT / 'protos'}",
            f"--descriptor_set_out={out}",
            *(f"{VIRTUAL}/{name}.proto" for name in MODULES),
        ],
        check=True,
    )
    files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    return {pathlib.Path(file.name).stem: file for file in files.file}


def test_every_proto_is_compiled():
    assert {path.stem for path in (ROOT / "protos").glob("*.proto")} == set(
        MODULES
    )


@pytest.mark.parametrize("name", sorted(MODULES))
def test_descriptors_are_in_step(compiled, name):
    committed = descriptor_pb2.FileDescriptorProto()
    MODULES[name].DESCRIPTOR.CopyToProto(committed)
    expected = descriptor_pb2.FileDescriptorProto()
    expected.CopyFrom(compiled[name])
    # Some versions of protoc write the JSON names out, others leave the
    # reader to work them out.
    for file in (committed, expected):
        for message in file.message_type:
            _clear_json_names(message)
    assert committed == expected, "run scripts/compile_protos.sh"


def _clear_json_names(message: descriptor_pb2.DescriptorProto) -> None:
    for field in message.field:
        field.ClearField("json_name")
    for nested in message.nested_type:
        _clear_json_names(nested)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_the_generated_code_checks_no_protobuf_version(name):
    text = (ROOT / VIRTUAL / f"{name}_pb2.py").read_text()
    assert "Protobuf Python Version: 4.25" in text
    assert "runtime_version" not in text


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_module_imports_alone_in_a_fresh_process(name):
    subprocess.run(
        [sys.executable, "-c", f"import elastic_keras.wire.proto.{name}_pb2"],
        check=True,
        cwd=ROOT,
    )


@pytest.mark.parametrize("name", ["tensor", "ps", "master"])
def test_stubs_name_every_message(name):
    text = (ROOT / VIRTUAL / f"{name}_pb2.pyi").read_text()
    for message in MODULES[name].DESCRIPTOR.message_types_by_name:
        assert f"class {message}(" in text


@pytest.mark.parametrize("module", [ps_pb2, master_pb2])
def test_every_service_exchanges_pieces(module):
    (service,) = module.DESCRIPTOR.services_by_name.values()
    exchange = service.methods_by_name["Exchange"]
    assert exchange.client_streaming
    assert exchange.server_streaming
    assert exchange.input_type is tensor_pb2.Piece.DESCRIPTOR
    assert exchange.output_type is tensor_pb2.Piece.DESCRIPTOR
