#!/bin/bash
# Pre-train on all GPUs of one machine, or of several; where a process dies, all start again at the last checkpoint.
#
#     examples/torchrun.sh electra-small --corpus corpus/ --out runs/a
#     NODES=2 HEAD=node1:29400 examples/torchrun.sh electra-small --corpus /shared/corpus --out /shared/runs/a   # on each
#
# PROCESSES: of each machine, one for each GPU without a word; on CPUs give their number. RESTARTS: how often, 3.
# NODES, HEAD: how many machines, and which one they meet on, at which port.
set -euo pipefail
meet=(--standalone)
if [ "${NODES:-1}" -gt 1 ]; then
    meet=(--nnodes "$NODES" --rdzv-backend c10d --rdzv-endpoint "$HEAD" --rdzv-id "${JOB:-trueneg}")
fi
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 # or processes that start again wait for ones that are gone: pytorch#135712
exec python -m torch.distributed.run "${meet[@]}" --nproc-per-node "${PROCESSES:-gpu}" \
    --max-restarts "${RESTARTS:-3}" -m trueneg pretrain "$@" --resume
