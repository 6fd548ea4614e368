"""The training loop: small, plain torch, resumable at any step, the same loss curve on any number of processes."""
