"""Inputs of an attack: its options, and resources that are loaded on first access."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trueneg.config.codec import override
from trueneg.config.validation import Needs, refuse_idle
from trueneg.errors import ConfigError, unknown_name
from trueneg.lexicon.wordnet_location import wordnet_digest

if TYPE_CHECKING:
    from trueneg.attacks.word_substitution.neighbours import NeighbourTable
    from trueneg.attacks.word_substitution.similarity import Similarity
    from trueneg.lexicon.tagging import Tagger
    from trueneg.lexicon.vectors import Vectors
    from trueneg.lexicon.wordnet import WordNet


@dataclass(frozen=True, kw_only=True)
class AttackConfig:
    """Choice of an attack, its variant and its resources."""

    name: str
    """One of :data:`trueneg.attacks.registry.ATTACKS`."""
    profile: str = ""
    """Variant of the attack; by default its first."""
    seed: int = 0
    neighbours: str = ""
    """A table of neighbours (JSON), or word vectors."""
    encoder: str = ""
    """A checkpoint whose mean vectors measure the similarity of texts; ``none`` for no limit."""
    masked_lm: str = ""
    """A checkpoint that proposes words."""
    tagger: str = "pattern"
    wordnet: str = ""
    device: str = ""
    """Device of ``encoder`` and ``masked_lm``; by default a GPU if there is one. The attacked model has its own."""
    settings: tuple[str, ...] = ()
    """``key=value``, for the attack's own options."""


class AttackSetup:
    """Provides an attack's options and resources. Resources are loaded, and recorded, when accessed.

    Args:
        config: The user's choices.
    """

    def __init__(self, config: AttackConfig) -> None:
        self.config = config
        self.profile = config.profile
        self.provenance: dict[str, str] = {}
        """Identification of the resources that were read, as JSON."""
        self._read = {"name", "profile", "settings"}

    def options(self, profiles: Mapping[str, Any], needs: Needs = ()) -> Any:
        """Choose a profile, and apply the settings to its options.

        Args:
            profiles: Options by name, the default first.
            needs: Options that have no effect without others.

        Raises:
            ConfigError: for an unknown profile or option, or one that has no effect.
        """
        self.profile = self.profile or next(iter(profiles))
        if self.profile not in profiles:
            raise ConfigError(unknown_name(f"profile of {self.config.name}", self.profile, profiles))
        options = override(profiles[self.profile], self.config.settings)
        refuse_idle(options, self.config.settings, needs)
        return options

    @property
    def seed(self) -> int:
        """The random seed, for attacks that draw."""
        self._read.add("seed")
        return self.config.seed

    @property
    def tagger(self) -> Tagger:
        """The part-of-speech tagger."""
        from trueneg.lexicon.tagging import make_tagger

        tagger = make_tagger(self._path("tagger"))
        self.provenance["tagger"] = tagger.name
        return tagger

    @property
    def wordnet(self) -> WordNet:
        """WordNet, from the named folder or the usual places."""
        from trueneg.lexicon.wordnet import WordNet

        wordnet = WordNet.load(self._path("wordnet") or None)
        self.provenance["wordnet"] = wordnet_digest(wordnet.path)
        return wordnet

    @property
    def neighbours(self) -> NeighbourTable | Vectors:
        """A table of neighbours, or word vectors from which they are computed."""
        from trueneg.attacks.word_substitution.neighbours import load_neighbours
        from trueneg.lexicon.vectors import load_vectors

        path = self._path("neighbours", "counter-fitted vectors, or a JSON table of neighbours")
        found = load_neighbours(path) if Path(path).suffix == ".json" else load_vectors(path)
        self.provenance.update(found.provenance)
        return found

    @property
    def masked_lm(self) -> str:
        """The checkpoint that proposes words."""
        self.provenance["masked_lm"] = self._path("masked_lm", "a checkpoint that proposes words")
        return self.config.masked_lm

    @property
    def device(self) -> str:
        """The device that encoders run on: the named one, else a GPU if there is one."""
        from trueneg.training.distributed import choose_device

        return str(choose_device(self._path("device")))

    def similarity(self, *, is_optional: bool = False) -> Similarity | None:
        """Load the encoder that measures the similarity of texts; None for no limit.

        Args:
            is_optional: Whether there is no limit unless an encoder is named; else ``none`` must be given.
        """
        from trueneg.attacks.word_substitution.similarity import MeanVectors

        what = "" if is_optional else "a checkpoint whose vectors measure how similar texts are, or none for no limit"
        source = self._path("encoder", what)
        found = None if source in ("", "none") else MeanVectors(source, self.device)
        self.provenance.update({"similarity": "none"} if found is None else found.provenance)
        return found

    def refuse_unused(self) -> None:
        """Refuse a resource that was named but not read.

        Raises:
            ConfigError: naming it.
        """
        for option in fields(self.config):
            if option.name not in self._read and getattr(self.config, option.name) != option.default:
                what = f"{self.config.name} {self.config.profile}".strip()
                raise ConfigError(f"{what} takes no --{option.name.replace('_', '-')}: leave it out")

    def _path(self, name: str, what: str = "") -> str:
        """Record that a resource is read, and refuse a missing one that ``what`` describes."""
        self._read.add(name)
        path = str(getattr(self.config, name))
        if what and not path:
            raise ConfigError(f"{self.config.name} needs --{name.replace('_', '-')}: {what}")
        return path
