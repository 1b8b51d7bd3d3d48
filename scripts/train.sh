#!/usr/bin/env bash
# From a fresh checkout to a trained model: makes .venv, makes synthetic data
# in Criteo's format whose best reachable AUC is known, trains criteo.deepfm
# on it with two workers and two shards. Arguments go to `elastic_keras
# train` and win over the flags below.
#
# ROWS=N ./scripts/train.sh makes and uses N rows instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

readonly ROWS="${ROWS:-500000}"
readonly DATA="data/criteo-$ROWS"

ensure_environment ""
if [[ ! -f "$DATA/planted.json" ]]; then
  echo "Making $ROWS rows of synthetic data in $DATA"
  .venv/bin/python scripts/make_criteo.py --output "$DATA" --rows "$ROWS"
fi

job_dir="runs/criteo-deepfm-$(date +%Y%m%d-%H%M%S)"
for argument in "$@"; do
  case "$argument" in
    --job_dir=* | -job_dir=*) job_dir="${argument#*=}" ;;
  esac
done

.venv/bin/elastic_keras train \
  --model_zoo=model_zoo --model_def=criteo.deepfm \
  --training_data="$DATA/train.tsv" \
  --validation_data="$DATA/validation.tsv" \
  --minibatch_size=512 --num_epochs=2 \
  --num_workers=2 --num_ps=2 --max_staleness=4 \
  --job_dir="$job_dir" "$@"

.venv/bin/python scripts/compare_auc.py \
  --result="$job_dir/result.json" --planted="$DATA/planted.json"
