"""The names of job plugins that the API knows are those of the plugins that there are, and so is who needs whom."""

from __future__ import annotations

from allhands.api.volcano.plugin_names import DEFAULT_MPI_MASTER, JOB_PLUGINS, NEEDS
from allhands.lifecycle.volcano_job.plugins.catalog import PLUGINS


def test_names_and_needs_are_those_of_the_plugins() -> None:
    assert set(PLUGINS) == JOB_PLUGINS
    assert {name: set(plugin().needs()) for name, plugin in PLUGINS.items() if plugin().needs()} == {
        name: set(needed) for name, needed in NEEDS.items()
    }


def test_the_master_of_mpi_has_the_name_that_the_plugin_looks_for() -> None:
    assert getattr(PLUGINS["mpi"](), "master", None) == DEFAULT_MPI_MASTER
