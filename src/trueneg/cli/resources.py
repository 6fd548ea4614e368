"""Resources that detectors need, from the options of a verb."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueneg.errors import ConfigError

if TYPE_CHECKING:
    from trueneg.detectors.specification import Resources


def make_resources(wordnet: str, device: str) -> Resources:
    """Return the lexicon and the device for detectors.

    Raises:
        ConfigError: for a device that is not available.
    """
    from trueneg.detectors.specification import Resources
    from trueneg.training.distributed import choose_device

    try:
        return Resources(wordnet=wordnet, device=str(choose_device(device)))
    except ConfigError as error:
        raise ConfigError(
            str(error).replace("train.device=", "--device ").replace("train.device", "--device")
        ) from error
