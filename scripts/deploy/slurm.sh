#!/usr/bin/env bash
# A swarm on the nodes of a Slurm job, one peer per node: sbatch scripts/deploy/slurm.sh --model lenet --data mnist --epochs 50
# The arguments go to the peer that starts the run. STARLING_DATA must be a folder that every node can read; results and state
# go to $SLURM_SUBMIT_DIR/starling-$SLURM_JOB_ID.
#SBATCH --job-name=starling
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=01:00:00
#SBATCH --signal=TERM@60
set -euo pipefail

port=${STARLING_PORT:-7100}
folder=${SLURM_SUBMIT_DIR:-$PWD}/starling-${SLURM_JOB_ID:?this is a script for sbatch}
mkdir -p "$folder"
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
first=${nodes[0]}

export port folder first
# Each task is one peer. Slurm's SIGTERM, a minute before the time limit, makes them leave cleanly.
# shellcheck disable=SC2016  # expanded by the tasks' shells
srun --kill-on-bad-exit=0 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" bash -c '
  set -euo pipefail
  node=$(hostname --short)
  own=(--name "$node" --listen "0.0.0.0:$port" --advertise "$node:$port" --workers "${SLURM_CPUS_PER_TASK:-1}"
    --state "$folder/state-$node" --out "$folder")
  if [[ $SLURM_PROCID == 0 ]]; then
    exec starling peer "${own[@]}" "$@"
  fi
  exec starling peer "${own[@]}" --join "$first:$port"
' starling "$@"
