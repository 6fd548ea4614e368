#!/bin/bash
#SBATCH --job-name=trueneg
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=24:00:00
#SBATCH --signal=TERM@180
#SBATCH --requeue
#SBATCH --open-mode=append
# Pre-train on several machines under Slurm, on a file system that they share:
#
#     sbatch examples/slurm.sh electra-small --corpus /shared/corpus --out /shared/runs/a
#
# One torchrun a machine. Where a process dies, all start again at the last checkpoint, three times; three minutes before
# the time is up they save and stop. A job that is requeued, or sent again, goes on: --dependency=singleton queues several.
set -euo pipefail
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${hosts%%$'\n'*} # not "| head -n 1", which ends the job where scontrol is still writing (SIGPIPE, status 141)
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 # or processes that start again wait for ones that are gone: pytorch#135712
exec srun --kill-on-bad-exit=1 python -m torch.distributed.run --nnodes "$SLURM_NNODES" \
    --nproc-per-node "${PROCESSES:-gpu}" --rdzv-backend c10d --rdzv-endpoint "$head:${PORT:-29400}" \
    --rdzv-id "$SLURM_JOB_ID" --max-restarts 3 -m trueneg pretrain "$@" --resume
