"""Modules to start from, with makers of data for them.

Each is a folder with `module.py` and `data.py`, in which NAME stands for the
name of the new module. `starting` copies them; nothing imports `module`.
"""
