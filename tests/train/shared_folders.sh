#!/bin/bash
# Ranks whose folders are not the same: another checkpoint under the same name, none at all, an output folder of their own. Nothing is trained, and nothing is set aside.
# usage: shared_folders.sh BIN_FOLDER
PATH=$(realpath "$1"):$PATH
. "$(dirname "$0")/../script.sh"
set -o pipefail
export TRAINYARD_DEVICE=cpu
small_text 200 >text
tiny_model >model.toml
expect 0 shard-data --input text --split paragraphs --output data --validation 0.1
common=(--model "$PWD/model.toml" --data "$PWD/data" --global-batch 2 --micro-batch 1 --threads 1 --progress never)
mkdir n0 n1
expect 0 train "${common[@]}" --output n0/run --steps 4 --save-every 2
expect 0 train "${common[@]}" --output n1/run --steps 4 --save-every 2 --seed 9
mkdir bin
PATH=$PWD/bin:$PATH
cat >bin/apart <<END
#!/bin/bash
# apart FLAGS...: train with rank 0 in n0, rank 1 in n1
exec mpirun -q --bind-to none -n 1 --wdir "$PWD/n0" train "\$@" : -n 1 --wdir "$PWD/n1" train "\$@"
END
chmod +x bin/apart
looks() { find n0 n1 -not -name '*.log' -printf '%p %s\n' | sort; }

cp -r n0/run/checkpoints/step-00000004 n0/ck
cp -r n1/run/checkpoints/step-00000004 n1/ck
for flag in --resume --init-from; do
  expect 3 apart "${common[@]}" --output "$PWD/chimera$flag" --steps 8 --change steps $flag ck
  said "another checkpoint than rank 0's"
done
expect 3 apart --evaluate ck --evaluate-sequences 2 --threads 1
said "another checkpoint"

# Rank 1 does not see the newest checkpoint: no reason to go back to an older one.
rm -r n1/run && cp -r n0/run n1/run && rm -r n1/run/checkpoints/step-00000004
before=$(looks)
expect 4 apart "${common[@]}" --output run --steps 8
[ "$(looks)" = "$before" ] || fail "something changed: $(diff <(echo "$before") <(looks))"
unsaid "is kept as"

# An output folder of its own is told at the start.
patience=60
expect 4 apart "${common[@]}" --output fresh --steps 8
said "another folder than rank 0's"
absent n0/fresh/checkpoints/step-00000008
passed
