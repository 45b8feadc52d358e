#!/bin/bash
# score --references gives the numbers of sacrebleu on new texts. Nightly; needs the package sacrebleu.
# usage: sacrebleu.sh BIN_FOLDER SOURCE_FOLDER
PATH=$(realpath "$1"):$PATH
source=$(realpath "$2")
. "$(dirname "$0")/../script.sh"
time_limit=900
python=${TRAINYARD_PYTHON:-python3}
"$python" -c 'import sacrebleu' 2>/dev/null || skipped "$python has no sacrebleu (TRAINYARD_PYTHON says which python has)"

seed=${TRAINYARD_MUTATION_SEED:-$(date +%Y%m%d)}
[ "$seed" = random ] && seed=$RANDOM
expect 0 "$python" "$source/tests/golden/translation_scores.py" --compare "$(command -v score)" --cases 500 --seed "$seed"
said '^1500 scores of 500 drawn texts are equal'
# What is committed is what the package says. Other versions of it may print another signature.
mkdir written
expect 0 "$python" "$source/tests/golden/translation_scores.py" --write written
for file in written/*; do
  [ "$file" = written/scores.json ] || same "$source/tests/golden/translations/$(basename "$file")" "$file" "a text"
done
jq 'del(..|.signature?, .confidence?, .paired?)' "$source/tests/golden/translations/scores.json" >committed
jq 'del(..|.signature?, .confidence?, .paired?)' written/scores.json >made
same committed made "the scores"
passed
