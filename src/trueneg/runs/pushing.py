"""``push``: a run's model to a repository of the Hugging Face hub, and its kept steps as revisions."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from trueneg.errors import ConfigError, ModelError
from trueneg.models.loading import resolve_checkpoint
from trueneg.runs.exporting import export
from trueneg.training.folder import kept_models

MAIN = "main"
"""The revision that is loaded by default."""


@dataclass(frozen=True)
class Pushed:
    """A revision that was written."""

    repository: str
    revision: str
    step: int | None
    """Step of the run; None for its last model."""
    commit: str
    """URL of the commit."""

    @property
    def load(self) -> str:
        """Line of Python that loads it."""
        named = "" if self.revision == MAIN else f', revision="{self.revision}"'
        return f'AutoModel.from_pretrained("{self.repository}"{named})'


def push(
    checkpoint: str,
    repository: str,
    *,
    steps: Sequence[int] = (),
    kept: bool = False,
    private: bool = False,
    overwrite: bool = False,
) -> list[Pushed]:
    """Upload a checkpoint to a repository of the hub, which is created if it does not exist.

    Without ``steps`` and ``kept``, the run's ``hf/``, or the folder, is written to ``main``. A step is written to a
    revision ``step-N`` that holds only that model. The token is that of ``hf auth login``, or ``HF_TOKEN``.

    Args:
        checkpoint: A run's folder or a Hugging Face folder.
        repository: ``OWNER/NAME``.
        steps: Steps that a run kept, or has a checkpoint of.
        kept: Write all steps that it kept (``train.keep_at``, ``train.keep_every``).
        private: Make the repository private if it is created.
        overwrite: Overwrite existing revisions.

    Raises:
        ConfigError: for steps of something other than a run, a run that kept none, or a revision that exists.
        ModelError: if there is no model, or the hub refuses.
    """
    from huggingface_hub import HfApi

    run = Path(checkpoint)
    wanted = dict.fromkeys([*steps, *(_kept_steps(run) if kept else ())])
    with ExitStack() as stack:
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trueneg-")))
        folders: dict[int | None, Path] = {step: _folder_of_step(run, step, temporary) for step in wanted}
        if not folders:
            folders[None] = Path(resolve_checkpoint(checkpoint))
            if not folders[None].is_dir():
                raise ModelError(f"no folder at '{checkpoint}': give a run folder or a Hugging Face folder")
        api = HfApi()
        try:
            api.create_repo(repository, private=private, exist_ok=True)
            known = {branch.name for branch in api.list_repo_refs(repository).branches}
            if not overwrite:
                _refuse_known(repository, known, wanted)
            return [_write(api, repository, known, step, folder) for step, folder in folders.items()]
        except ConfigError:
            raise
        except Exception as error:  # the library's own exceptions, and those of its current HTTP library
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ModelError(
                f"the hub does not take '{repository}': {reason}; what is needed is a name OWNER/NAME, a token that "
                f"may write there (hf auth login, or HF_TOKEN) and the network; what is there already stays: push again"
            ) from error


def revision_of(step: int) -> str:
    """Name of the revision that holds a step's model."""
    return f"step-{step}"


def _write(api: object, repository: str, known: set[str], step: int | None, folder: Path) -> Pushed:
    from huggingface_hub import HfApi

    assert isinstance(api, HfApi)
    revision = MAIN if step is None else revision_of(step)
    if revision not in known:
        api.create_branch(repository, branch=revision)
    message = "The model" if step is None else f"The model of step {step:,}"
    done = api.upload_folder(
        repo_id=repository,
        folder_path=folder,
        revision=revision,
        commit_message=message,
        # A new branch starts as a copy of another, whose files are removed.
        delete_patterns="*",
    )
    return Pushed(repository, revision, step, str(done.commit_url))


def _refuse_known(repository: str, known: set[str], steps: Sequence[int] | dict[int, None]) -> None:
    there = [revision_of(step) for step in steps if revision_of(step) in known]
    if there:
        raise ConfigError(
            f"'{repository}' has {', '.join(there)} already: leave them out, or pass --overwrite to write them anew"
        )


def _kept_steps(run: Path) -> list[int]:
    found = list(kept_models(run))
    if not found:
        raise ConfigError(f"--kept: '{run}' kept no step: train.keep_at and train.keep_every say which are")
    return found


def _folder_of_step(run: Path, step: int, temporary: Path) -> Path:
    found = kept_models(run)
    return found[step] if step in found else export(str(run), "hf", temporary / str(step), step=step).path
