#!/usr/bin/env python3
"""Texts and their scores by sacrebleu, and a comparison of the program score with sacrebleu.

    python3 tests/golden/translation_scores.py --write tests/golden/translations
    python3 tests/golden/translation_scores.py --compare build/release/bin/score [--cases 200] [--seed 1]

Needs the package `sacrebleu` (2.6.0 wrote the files) and what it needs. The texts are ours: sentences below, and words drawn by a rule. --compare draws
new texts, runs the program, and exits 1 with the first number that differs; of intervals and p values, which come from other random numbers, it wants
what their noise allows.
"""
import argparse, json, logging, math, os, random, subprocess, sys, tempfile

from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

logging.disable(logging.CRITICAL)
TOKENIZERS = ["13a", "none", "char", "intl", "zh"]

# For each case: lines of (hypothesis, reference, second reference).
SENTENCES = {
    "german": [
        ("Der Zug fährt um 8.15 Uhr ab, nicht um 9,30 Uhr.", "Der Zug fährt um 8.15 Uhr ab und nicht um 9,30 Uhr.", "Um 8.15 Uhr geht der Zug, nicht um 9,30 Uhr."),
        ("Die Straße ist naß - sagte die Müllerin.", "„Die Straße ist nass“, sagte die Müllerin.", "Die Müllerin sagte: „Die Straße ist nass.“"),
        ("Das kostet 1.234,56 € (inkl. 19 % MwSt.).", "Das kostet 1.234,56 Euro (inkl. 19% MwSt.).", "Es kostet 1.234,56 €, 19 % Mehrwertsteuer eingeschlossen."),
        ("Er ging in den Wald und kam nicht zurück", "Er ging in den Wald, und er kam nie zurück.", "In den Wald ging er; zurück kam er nicht."),
        ("Ein Über-Öl-Händler aus Köln-Ehrenfeld kam 2019-2020.", "Ein Ölgroßhändler aus Köln-Ehrenfeld kam 2019–2020.", "Aus Köln-Ehrenfeld kam 2019-20 ein Öl-Händler."),
        ("Heute!", "Heute?", "Heute."),
    ],
    "chinese": [
        ("火车早上八点十五分开，不是九点半。", "火车在早上八点十五分出发，而不是九点半。", "列车八点十五分发车，不是九点半。"),
        ("他说：“这条路是湿的。”", "他说：“路是湿的。”", "他说，路湿了。"),
        ("价格是1,234.56元（含税）。", "价格为1,234.56元(含税)。", "含税价1234.56元。"),
        ("我们在２０１９年去了Köln和北京。", "我们2019年去了科隆和北京。", "2019年，我们去过北京和Köln。"),
        ("𠀀𠀁是罕见的字。", "𠀀和𠀁是罕见字。", "罕见的字有𠀀、𠀁。"),
    ],
    "arabic": [
        ("يغادر القطار في الساعة ٨:١٥ صباحًا.", "يغادر القطار الساعة ٨:١٥ صباحا، وليس ٩:٣٠.", "القطار يغادر في ٨:١٥."),
        ("قال: «الطريق مبلل»؟", "قال: «إن الطريق مبلل».", "هل قال «الطريق مبلل»؟"),
        ("السعر ١٬٢٣٤٫٥٦ ريالًا، مع الضريبة", "السعر هو ١٬٢٣٤٫٥٦ ريال مع الضريبة.", "ثمنه 1,234.56 ريال، شاملًا الضريبة"),
        ("ذهبنا إلى المدينة القديمة أمس", "ذهبنا أمس إلى المدينة القديمة", "بالأمس ذهبنا إلى المدينة"),
    ],
    "signs": [
        ("A 🚂 pulls 👩‍👩‍👧 and 🏳️‍🌈, 👍🏽!", "A 🚂 pulls 👩‍👩‍👧 and 🏳️‍🌈 👍🏽 !", "The 🚂 pulls 👩‍👩‍👧, 🏳️‍🌈 and 👍🏿!"),
        ("e\u0301te\u0301 and été, A\u030Angstro\u0308m", "été and e\u0301te\u0301, Ångström", "e\u0301te\u0301, été; A\u030Angström"),
        ("&quot;a&quot; &amp;lt; b &lt;c&gt; &amp;amp; &apos;d&apos; &nbsp;", "\"a\" &lt; b <c> &amp; 'd' &nbsp;", "\"a\" < b <c> & 'd'"),
        ("<skipped>one <skip ped> two<skipped>", "one <skip ped> two", "one two"),
        ("x-y 3-4 5- -6 7--8 ---", "x - y 3 - 4 5 - - 6 7 - - 8 ---", "x-y 3-4 5--6 7-8"),
        ("...a.b,c.1,2.3.4,, 5., .6 ,7 8.9", "... a . b , c.1,2.3.4 , , 5. , .6 , 7 8.9", "..a.b,c. 1,2 .3.4,5.,.6,7,8.9."),
        ("tab\there\u00a0no\u2009break\u3000wide\u2028line\u2029par\u0085nel\u001cfs\u001fus\u200bzero", "tab here no break wide line par nel fs us zero", "tab here\u00a0nobreak wide line\u2028par nel fs\u001fus\u200b zero"),
        ("a\rb c\x0bd \x0ce\x7ff\x00g", "a b c d e f g", "a\rb c d\x0be \x0cf g"),
        ("'don't' \"can't\" `won't` ~a^b|c{d}e[f]g\\h", "' don't ' \" can't \" ` won't ` ~ a ^ b | c { d } e [ f ] g \\ h", "'don't' can't won't a^b"),
        ("¿Qué? ¡No! «sí»… 5€ £6 7₿ ∑x≤y±z °C ½ Ⅷ ② ٣", "¿ Qué ? ¡ No ! « sí » … 5 € £ 6 7 ₿ ∑ x ≤ y ± z ° C ½ Ⅷ ② ٣", "¿Qué? ¡no! sí… 5 € £6 ∑x≤y"),
        ("(hi) !a b! !c! ! !! !!! d", "(hi) ! a b ! ! c ! ! ! ! ! ! ! d", "hi !a! b! c !! d"),
        ("  leading and trailing   ", "leading and trailing", "\u3000leading and trailing\u00a0"),
        ("year 2019.", "year 2019 .", "2019."),
        (" .6 x", ".6 x", ". 6 x"),
        ("ﬁne İstanbul ǅ ß ẞ \ufeff mark", "fine Istanbul dž ss SS mark", "ﬁne İstanbul mark"),
    ],
    "short": [("", "", ""), ("a", "a", "b"), ("a b", "", "a"), ("", "a b", ""), (".", ".", ""), ("a b c d", "a b c d", "a b c d e"), ("\u3000", " ", "x"), ("!", "?", "!")],
    "words": [("yes", "yes", "no"), ("no", "yes", "no"), ("maybe", "maybe", "maybe")],
    "identical": [("The train leaves at 8.15, not at 9.30.", "The train leaves at 8.15, not at 9.30.", "x"), ("Die Straße ist nass.", "Die Straße ist nass.", "x"), ("路是湿的。", "路是湿的。", "x")],
    "nothing": [("aaa bbb ccc ddd eee", "fff ggg hhh iii jjj", "kkk lll mmm"), ("aaa", "kk", "l")],
    "empty": [("", "fff ggg hhh iii jjj", "k"), ("", "k", "l")],
    "emptied": [("fff ggg hhh iii jjj", "", ""), ("k", "", "")],
    "repeated": [("the the the the the the the", "the cat is on the mat", "there is a cat on the mat"), ("a a a b b a a a", "a a b", "a b b a a"), ("of of of of", "of", "of of")],
}

VOCABULARY = ("der die das und nicht Zug Straße fährt the a train of to in that 8.15 9,30 3-4 1.234,56 it's &amp; &quot;x&quot; (so) „ja“ 火车 路是湿的 ，。 в поезд القطار ٨:١٥ "
              "🚂 👩‍👩‍👧 é e\u0301 co-op . , ! ? ; : - – … € $5 50% <b> x=y a/b [1] {2} `c` ~d ^ _e_ 2019. .5 ,6 N.Y. \u00a0 A B").split(" ")


def drawn(rng, lines, broken=False):
    """Lines by a rule: a reference, a second one and a hypothesis with words exchanged, lost, doubled and joined."""
    def changed(words, how_much):
        out = []
        for word in words:
            if rng.random() >= how_much:
                out.append(word)
            elif rng.random() < 0.6:
                out += [rng.choice(VOCABULARY)] * rng.choice([0, 1, 1, 2])
        if out and rng.random() < how_much:
            at = rng.randrange(len(out))
            out[at:at + 2] = reversed(out[at:at + 2])
        return out

    def joined(words):
        text = ""
        for word in words:
            text += word + rng.choice([" "] * 12 + ["", "  ", "\u3000", "\t"])
        if broken:
            for _ in range(rng.choice([0, 0, 1, 3])):
                at = rng.randrange(len(text) + 1)
                text = text[:at] + strange(rng) + text[at:]
        return text.replace("\n", " ")

    out = []
    for _ in range(lines):
        words = [rng.choice(VOCABULARY) for _ in range(rng.choice([0, 1, 2, 3, 5, 8, 13, 21, 34]))]
        out.append((joined(changed(words, 0.3)), joined(words), joined(changed(words, 0.15))))
    return out


def strange(rng):
    while True:
        c = rng.randrange(rng.choice([0x80, 0x250, 0x3000, 0x10000, 0x20000]))
        if c not in (0x0A, 0x00, 0xFEFF) and not 0xD800 <= c < 0xE000 and known(c):
            return chr(c)


def known(c):
    """Whether Unicode 14, which Python 3.11 has, assigns it: newer versions differ in what they add."""
    import unicodedata
    return unicodedata.category(chr(c)) != "Cn"


def lists(lines, references):
    return [h for h, *_ in lines], [[line[1 + r] for line in lines] for r in range(references)]


def metric_of(name, tokenizer="13a"):
    return {"bleu": lambda: BLEU(tokenize=tokenizer), "chrf": CHRF, "chrf++": lambda: CHRF(word_order=2)}[name]()


def scored(lines, references, name, tokenizer="13a"):
    hypotheses, refs = lists(lines, references)
    metric = metric_of(name, tokenizer)
    score = metric.corpus_score(hypotheses, refs)
    out = {"metric": name, "references": references, "score": score.score, "signature": str(metric.get_signature()),
           "lines": [list(map(int, line)) for line in metric._extract_corpus_statistics(hypotheses, refs)]}
    if name == "bleu":
        out.update(tokenizer=tokenizer, precisions=score.precisions, brevity_penalty=score.bp, lengths=[score.sys_len, score.ref_len],
                   matched=list(score.counts), all=list(score.totals), shown=score.format(width=2))
    else:
        out.update(shown=score.format(width=2))
    return out


def confidence(lines, name, samples=1000):
    hypotheses, refs = lists(lines, 1)
    score = metric_of(name).corpus_score(hypotheses, refs, n_bootstrap=samples)
    return {"metric": name, "samples": samples, "mean": float(score._mean), "half_width": float(score._ci)}


def paired(lines, others, name, samples=1000):
    hypotheses, refs = lists(lines, 1)
    test = PairedTest([("baseline", others), ("own", hypotheses)], {name: metric_of(name)}, refs, test_type="bs", n_samples=samples)
    _, results = test()
    return {"metric": name, "p_value": float(list(results.values())[1][1].p_value)}


def write(folder):
    cases = dict(SENTENCES, drawn=drawn(random.Random(7), 150))
    expected = {}
    for case, lines in cases.items():
        for i, name in enumerate(["hypothesis", "reference-1", "reference-2"]):
            with open(f"{folder}/{case}.{name}", "w", newline="\n") as file:
                file.writelines(line[i] + "\n" for line in lines)
        expected[case] = {"scores": []}
        for references in (1, 2):
            for tokenizer in TOKENIZERS:
                expected[case]["scores"].append(scored(lines, references, "bleu", tokenizer))
            for name in ("chrf", "chrf++"):
                expected[case]["scores"].append(scored(lines, references, name))
        if case == "drawn":
            expected[case]["confidence"] = [confidence(lines, name) for name in ("bleu", "chrf", "chrf++")]
            others = other_system(lines)
            with open(f"{folder}/{case}.baseline", "w", newline="\n") as file:
                file.writelines(line + "\n" for line in others)
            expected[case]["paired"] = [paired(lines, others, name) for name in ("bleu", "chrf", "chrf++")]
            for s in expected[case]["scores"]:
                del s["lines"]
    with open(f"{folder}/scores.json", "w") as file:
        file.write("{\n" + ",\n".join(f"{json.dumps(case)}: " + json.dumps(value, ensure_ascii=True).replace('}, {"metric"', '},\n {"metric"') for case, value in expected.items()) + "\n}\n")


def other_system(lines):
    """About as good: some lines lose their last word, and some are a reference."""
    return [line[2] if i % 29 == 0 else " ".join(line[0].split(" ")[:-1]) if i % 3 == 0 else line[0] for i, line in enumerate(lines)]


def run(program, folder, lines, references, arguments, others=None):
    names = []
    for i, name in enumerate(["hypothesis", "reference-1", "reference-2"]):
        names.append(f"{folder}/{name}")
        with open(names[-1], "w", newline="\n") as file:
            file.writelines(line[i] + "\n" for line in lines)
    command = [program, "--json", "--input", names[0], "--references", *names[1:1 + references], *arguments]
    if others is not None:
        with open(f"{folder}/baseline", "w", newline="\n") as file:
            file.writelines(line + "\n" for line in others)
        command += ["--baseline", f"{folder}/baseline"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {result.returncode}: {result.stderr}")
    return [json.loads(line) for line in result.stdout.splitlines()]


def same(what, ours, theirs):
    """All printed digits: sacrebleu prints up to as many as it is asked for; sums of logarithms may differ in the last bit."""
    if not math.isclose(ours, theirs, rel_tol=1e-14, abs_tol=1e-300):
        sys.exit(f"{what}: {ours} here, {theirs} there")


def compare(program, cases, seed):
    numbers, printed = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for case in range(cases):
            rng = random.Random(seed * 1000003 + case)
            lines = drawn(rng, rng.choice([1, 2, 7, 40]), broken=True)
            references = rng.choice([1, 2])
            tokenizer = TOKENIZERS[case % len(TOKENIZERS)]
            where = f"seed {seed}, case {case}, {references} references, {tokenizer}"
            ours = run(program, folder, lines, references, ["--metric", "bleu,chrf,chrf++", "--bleu-tokenizer", tokenizer])
            for mine, name in zip(ours, ["bleu", "chrf", "chrf++"]):
                theirs = scored(lines, references, name, tokenizer)
                same(f"{where}: {name}", mine["score"], theirs["score"])
                numbers, printed = numbers + 1, printed + (f"{mine['score']:.12f}" == f"{theirs['score']:.12f}")
                if name == "bleu":
                    for key, other in (("precisions", "precisions"), ("matched_ngrams", "matched"), ("all_ngrams", "all")):
                        for a, b in zip(mine[key], theirs[other]):
                            same(f"{where}: {key}", a, b)
                    same(f"{where}: brevity penalty", mine["brevity_penalty"], theirs["brevity_penalty"])
                    assert [mine["hypothesis_words"], mine["reference_words"]] == theirs["lengths"], where
                assert mine["signature"].split("|version")[0] == theirs["signature"].split("|version")[0], (mine["signature"], theirs["signature"])
        for case in range(4):
            rng = random.Random(seed * 1000003 + cases + case)
            lines = drawn(rng, 120)
            others = [line[2] for line in drawn(rng, 120)] if case == 0 else [line[2] if rng.random() < 0.1 * case else line[0] for line in lines]
            for mine, name in zip(run(program, folder, lines, 1, ["--confidence", "1000"], others), ["bleu", "chrf"]):
                theirs = confidence(lines, name)
                # The mean of 1000 scores has an error of half_width / 1.96 / sqrt(1000); the ends of an interval about twice that.
                error = theirs["half_width"] / 1.96 / math.sqrt(1000)
                if abs(mine["confidence"]["mean"] - theirs["mean"]) > 6 * error or abs(mine["confidence"]["half_width"] - theirs["half_width"]) > 14 * error:
                    sys.exit(f"seed {seed}, interval {case}, {name}: {mine['confidence']} here, {theirs} there")
                p = paired(lines, others, name)["p_value"]
                if abs(mine["baseline"]["p_value"] - p) > 0.01 + 6 * math.sqrt(2 * p * (1 - p) / 1000):
                    sys.exit(f"seed {seed}, pair {case}, {name}: p {mine['baseline']['p_value']} here, {p} there")
    print(f"{numbers} scores of {cases} drawn texts are equal, {printed} in all of 12 decimal places; intervals and p values agree within their noise")


parser = argparse.ArgumentParser()
parser.add_argument("--write")
parser.add_argument("--compare")
parser.add_argument("--cases", type=int, default=200)
parser.add_argument("--seed", type=int, default=1)
arguments = parser.parse_args()
if arguments.write:
    write(arguments.write)
if arguments.compare:
    compare(os.path.abspath(arguments.compare), arguments.cases, arguments.seed)
