"""Run claims as Great Expectations suites and keep its own pages of them.

Each run writes its pages beside the last ones, and then they take their place: nothing grows with the number of runs, and a
run that dies leaves the last pages as they were. All but the pages stays in memory: a context in files writes its
configuration anew with each thing that is added, and reads it again for each setting.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.extras import named_extra
from headrace.quality.claims import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from headrace.quality.claims import Claim

# Great Expectations keeps its current project in a global of the process.
_ONE_AT_A_TIME = threading.Lock()
DOCS = "local_site"
DOCS_INDEX = f"{DOCS}/index.html"
SAMPLES_MAX = 20


def judge(claims: Mapping[str, tuple[Claim, str, str]], folder: Path) -> dict[str, Outcome]:
    """Judge claims and write their pages.

    In:     claims  for each check's name: the claim, what it says in words, and its severity
            folder  of the pages; they begin at `DOCS_INDEX` below it
    Out:    the outcome by name
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _ONE_AT_A_TIME, _alone(folder):
        built = folder.with_name(folder.name + ".next")
        shutil.rmtree(built, ignore_errors=True)
        context = _context(built / DOCS)
        sources = context.data_sources.add_spark("headrace"), context.data_sources.add_pandas("figures")
        shown: list[Any] = []
        outcomes = {name: _run(context, sources, shown, name, claim) for name, claim in claims.items()}
        if shown:
            context.build_data_docs(resource_identifiers=shown)
        _drop_tour(built)
        shutil.rmtree(folder, ignore_errors=True)
        built.rename(folder)
    return outcomes


def _context(pages: Path) -> Any:
    # Its import takes seconds, and it would send usage statistics.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    with named_extra():
        import great_expectations as gx
        from great_expectations.data_context.types.base import DataContextConfig, InMemoryStoreBackendDefaults

    pages.mkdir(parents=True)
    site = {
        "class_name": "SiteBuilder",
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(pages)},
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
    }
    config = DataContextConfig(
        data_docs_sites={DOCS: site},
        store_backend_defaults=InMemoryStoreBackendDefaults(),
        progress_bars={"globally": False},  # type: ignore[arg-type]
    )
    return gx.get_context(mode="ephemeral", project_config=config)


def _run(
    context: Any, sources: tuple[Any, Any], shown: list[Any], name: str, asked: tuple[Claim, str, str]
) -> Outcome:
    """Judge one claim, and add what its page is made of to `shown`. In: sources  of frames, and of figures.

    Each build of pages compiles all templates anew, so the pages of all claims are built at once.
    """
    import great_expectations as gx

    claim, words, severity = asked
    frame: Any = claim.frame
    source = sources[0]
    if isinstance(frame, pa.Table):
        source, frame = sources[1], frame.to_pandas()
    if isinstance(claim.expectation, str):
        expectation = getattr(gx.expectations, claim.expectation)(
            **claim.arguments, description=words, severity="critical" if severity == "error" else "warning"
        )
    else:
        expectation = claim.expectation.gx_expectation()
    batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("snapshot")
    suite = context.suites.add(gx.ExpectationSuite(name=name, expectations=[expectation]))
    definition = context.validation_definitions.add(
        gx.ValidationDefinition(name=name, data=batch, suite=suite)
    )
    checkpoint = gx.Checkpoint(
        name=name,
        validation_definitions=[definition],
        result_format={
            "result_format": "BASIC",
            "partial_unexpected_count": SAMPLES_MAX if claim.samples else 0,
        },
    )
    run = context.checkpoints.add(checkpoint).run(batch_parameters={"dataframe": frame})
    ((identifier, validation),) = run.run_results.items()
    if isinstance(claim.expectation, str):
        shown += [identifier, identifier.expectation_suite_identifier]
    (result,) = validation.results
    return Outcome(bool(result.success), _error(result.exception_info), dict(result.result or {}))


def _error(info: Mapping[str, Any] | None) -> str | None:
    """The first line of what was raised during the judgement; `info` is one entry, or one per metric."""
    entries = [info, *info.values()] if info else []
    messages = [e["exception_message"] for e in entries if isinstance(e, dict) and e.get("raised_exception")]
    return str(messages[0]).splitlines()[0] if messages else None


def _drop_tour(root: Path) -> None:
    """Films of its guided tour and a font, 4 MB per asset: nothing that a result needs."""
    static = (root / DOCS_INDEX).parent / "static"
    shutil.rmtree(static / "fonts", ignore_errors=True)
    for film in static.glob("images/*.gif"):
        film.unlink()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time rebuilds a folder."""
    with folder.with_name(folder.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
