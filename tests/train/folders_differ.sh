#!/bin/bash
# Ranks that see different folders: another checkpoint under the same name, no checkpoint, an output folder of their
# own. Nothing is trained, and nothing is set aside.
# usage: folders_differ.sh BIN_FOLDER
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

# Rank 1 does not see the newest checkpoint: that is no reason to go back to an older one.
rm -r n1/run && cp -r n0/run n1/run && rm -r n1/run/checkpoints/step-00000004
before=$(looks)
expect 4 apart "${common[@]}" --output run --steps 8
[ "$(looks)" = "$before" ] || fail "something changed: $(diff <(echo "$before") <(looks))"
unsaid "is kept as"

# A rank does not find the weights that another rank has.
mv n1/ck gone
expect 4 apart "${common[@]:2}" --output "$PWD/unseen" --steps 8 --init-from ck   # its model is taken
said "rank 1: on $(hostname): "
expect 4 apart "${common[@]}" --output "$PWD/unseen" --steps 8 --init-from ck
said "rank 1: on $(hostname) the checkpoint that rank 0 has chosen cannot be read"
mv gone n1/ck
expect 3 apart "${common[@]}" --output "$PWD/chimera" --steps 8 --change steps --resume ck --dry-run
said "another checkpoint than rank 0's"

# A rank's output folder of its own is reported at the start, for every such rank.
time_limit=60
expect 4 apart "${common[@]}" --output fresh --steps 8
said "for rank 1 on $(hostname) fresh is another folder than rank 0's on $(hostname)"
absent n0/fresh n1/fresh

# The same for a folder of checkpoints that is a link to a folder on each machine.
mkdir -p n0/own n1/own linked
ln -s /proc/self/cwd/own linked/checkpoints
expect 4 apart "${common[@]}" --output "$PWD/linked" --steps 8 --save-every 2
said "for rank 1 on $(hostname) .*linked/checkpoints is another folder"
[ -z "$(find n0/own n1/own -type f)" ] || fail "something stays: $(find n0/own n1/own)"

# Damage that only one rank sees belongs to its machine: the checkpoint is not set aside. Here step 4 is another folder
# for each rank.
expect 0 train "${common[@]}" --output run --steps 4 --save-every 2
for n in n0 n1; do cp -r run/checkpoints/step-00000004 $n/four; done
rm -r run/checkpoints/step-00000004
ln -s /proc/self/cwd/four run/checkpoints/step-00000004
spoil() { printf 'spoilt' | dd of="$1/four/rank-00000.h5" bs=1 seek=$(($(stat -c %s "$1/four/rank-00000.h5") / 2)) conv=notrunc status=none; }
cp n1/four/rank-00000.h5 whole.h5
looks_of_run() { find run n0/four n1/four -printf '%p %s\n' | sort; }
before=$(looks_of_run)
mv n1/four n1/gone
expect 4 apart "${common[@]}" --output "$PWD/run" --steps 8 --change steps
said "the checkpoint that rank 0 has chosen cannot be read"
mv n1/gone n1/four
[ "$(looks_of_run)" = "$before" ] || fail "something changed: $(diff <(echo "$before") <(looks_of_run))"
for bad in n1 n0; do
  spoil $bad
  expect 4 apart "${common[@]}" --output "$PWD/run" --steps 8 --change steps
  said "run/checkpoints/step-00000004 is whole for rank . on $(hostname) and damaged for another rank"
  [ "$(looks_of_run)" = "$before" ] || fail "something changed: $(diff <(echo "$before") <(looks_of_run))"
  truncate -s 1000 $bad/four/rank-00000.h5
  expect 4 apart "${common[@]}" --output "$PWD/run" --steps 8 --change steps
  [ "$(ls run/checkpoints)" = "$(printf 'latest\nstep-00000002\nstep-00000004')" ] || fail "checkpoints changed: $(ls run/checkpoints)"
  cp whole.h5 $bad/four/rank-00000.h5
done
# A checkpoint that is damaged for all ranks is skipped.
spoil n0
spoil n1
expect 0 apart "${common[@]}" --output "$PWD/run" --steps 8 --change steps
said "step-00000004 is skipped"
passed
