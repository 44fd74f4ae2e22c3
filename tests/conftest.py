"""Fixtures that every test folder shares."""

pytest_plugins = ["support.clusters", "support.golden", "support.installed"]
