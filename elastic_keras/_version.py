"""The version, read by setup.py as well."""

__version__ = "0.1.0"
