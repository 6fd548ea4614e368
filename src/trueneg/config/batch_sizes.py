"""Number of rows per step with batch warm-up (``train.batch_warmup_steps``), in closed form."""

from __future__ import annotations

from trueneg.config.options import TrainConfig
from trueneg.errors import ConfigError


def rows_of_step(train: TrainConfig, step: int) -> int:
    """Number of rows of a step (from 0): a function of the step alone, whatever the number of processes.

    It rises by ``batch_warmup_by`` at a time, with equally many steps at each size, as in ModernBERT.

    Example:
        >>> config = TrainConfig(batch_size=8, batch_warmup_steps=6, batch_warmup_from=2)
        >>> [rows_of_step(config, step) for step in range(8)]
        [2, 2, 4, 4, 6, 6, 8, 8]
    """
    if step >= train.batch_warmup_steps:
        return train.batch_size
    return train.batch_warmup_from + _by(train) * (step * _num_rises(train) // train.batch_warmup_steps)


def rows_before(train: TrainConfig, step: int) -> int:
    """Number of rows of all steps before a given one.

    Example:
        >>> rows_before(TrainConfig(batch_size=8, batch_warmup_steps=6, batch_warmup_from=2), 7)
        32
    """
    rising = min(step, train.batch_warmup_steps)
    before = train.batch_warmup_from * rising + train.batch_size * (step - rising)
    if not rising:
        return before
    return before + _by(train) * _floor_sum(rising, train.batch_warmup_steps, _num_rises(train))


def steps_for(train: TrainConfig, num_rows: int) -> int:
    """Smallest number of steps that read at least this many rows."""
    low, high = 0, train.batch_warmup_steps + -(-num_rows // train.batch_size)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if rows_before(train, middle) >= num_rows else (middle + 1, high)
    return low


def check_rows(train: TrainConfig, steps: int, num_processes: int = 1) -> None:
    """Refuse batch sizes that do not divide among processes and micro-batches, and invalid batch warm-ups.

    Args:
        train: Batch size and batch warm-up.
        steps: Steps of the run, or of the stage.
        num_processes: Number of processes that share a step.

    Raises:
        ConfigError: naming the option.
    """
    if train.accumulation < 1:
        raise ConfigError(f"train.accumulation must be at least 1, got {train.accumulation}")
    sizes = {"train.batch_size": train.batch_size}
    if train.batch_warmup_steps:
        if train.batch_warmup_from > train.batch_size:
            raise ConfigError(
                f"train.batch_warmup_from={train.batch_warmup_from} is more than train.batch_size={train.batch_size}, "
                f"to which rows rise: give fewer"
            )
        if (train.batch_size - train.batch_warmup_from) % _by(train):
            raise ConfigError(
                f"train.batch_warmup_from={train.batch_warmup_from} does not reach train.batch_size={train.batch_size} "
                f"in steps of {_by(train)} rows: set train.batch_warmup_by to a divisor of "
                f"{train.batch_size - train.batch_warmup_from}"
            )
        if train.batch_warmup_steps > steps:
            raise ConfigError(
                f"train.batch_warmup_steps={train.batch_warmup_steps:,} is more than the {steps:,} steps there are: "
                f"give fewer"
            )
        if train.cuda_graphs:
            raise ConfigError("train.cuda_graphs replays one size of a step: leave it out, or train.batch_warmup_steps")
        sizes |= {"train.batch_warmup_from": train.batch_warmup_from, "train.batch_warmup_by": _by(train)}
    parts = num_processes * train.accumulation
    for name, size in sizes.items():
        if size < 1 or size % parts:
            raise ConfigError(
                f"{name}={size} does not divide among {num_processes} processes times {train.accumulation} "
                f"micro-batches (train.accumulation): use a multiple of {parts}"
            )


def _by(train: TrainConfig) -> int:
    return train.batch_warmup_by or train.batch_warmup_from


def _num_rises(train: TrainConfig) -> int:
    """Number of increases of the batch size, the last one at the end of the warm-up."""
    return (train.batch_size - train.batch_warmup_from) // _by(train)


def _floor_sum(count: int, divisor: int, factor: int, first: int = 0) -> int:
    """Sum of ``(factor * i + first) // divisor`` over i below ``count``, in logarithmic time, as Euclid's algorithm."""
    total = 0
    while count:
        total += count * (count - 1) // 2 * (factor // divisor) + count * (first // divisor)
        factor, first = factor % divisor, first % divisor
        last = factor * count + first
        count, first, factor, divisor = last // divisor, last % divisor, divisor, factor
    return total
