"""Packaging of elastic_keras."""

import pathlib
import re

import setuptools

_HERE = pathlib.Path(__file__).parent


def _version() -> str:
    text = (_HERE / "elastic_keras" / "_version.py").read_text()
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"No version in _version.py. Received: {text!r}")
    return found.group(1)


setuptools.setup(
    name="elastic_keras",
    version=_version(),
    description="Parameter-server training for Keras 3",
    long_description=(_HERE / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    packages=setuptools.find_packages(
        include=["elastic_keras", "elastic_keras.*"]
    ),
    package_data={"elastic_keras": ["py.typed", "wire/proto/*.pyi"]},
    python_requires=">=3.10",
    install_requires=[
        "absl-py>=2.0",
        "cramjam>=2.8",
        "google-crc32c>=1.5",
        "grpcio>=1.65",
        "ml_dtypes>=0.4",
        "numba>=0.60",
        "numpy>=1.26",
        "protobuf>=5.28",
        "rich>=13",
        "safetensors>=0.4",
        "tensorboard>=2.18",
        "tensorflow>=2.18",
    ],
    extras_require={
        "parquet": ["pyarrow>=15"],
        "ray": ["ray>=2.30"],
        "kubernetes": ["kubernetes>=29"],
        "dev": [
            # The documentation, with its theme and Markdown in it.
            "furo",
            "grpc-stubs",
            "grpcio-tools",
            "hypothesis>=6",
            "mypy~=2.4",
            "myst-parser>=4",
            "psutil",
            "py-spy",
            "pytest>=8",
            # A test that hangs fails, with the stacks of all threads.
            "pytest-timeout",
            # Jobs of several tests side by side: half the time.
            "pytest-xdist",
            "ruff~=0.17.6",
            "sphinx>=8.1",
            # Certificates for the tests of TLS.
            "trustme",
            "types-protobuf",
        ],
        # Drives Chromium, for the pictures in docs/images/.
        "screenshots": ["selenium>=4.20"],
    },
    entry_points={
        "console_scripts": ["elastic_keras = elastic_keras.cli:main"]
    },
)
