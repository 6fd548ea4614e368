"""The training loop: small, plain torch, resumable at any step, the same curve on any number of processes."""
