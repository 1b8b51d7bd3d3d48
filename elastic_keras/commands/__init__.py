"""Subcommands that have subcommands of their own."""
