# SPDX-License-Identifier: MIT
"""A small analysis, for cases that ask what came of what."""

PROJECT = {
    "config.yaml": "rate: 3\nmodel: linear\n",
    "data/in.csv": "1\n2\n3\n",
    "model.awk": "{ print $1 * rate }\n",
    "run.sh": 'awk -v rate="$(sed -n s/rate:.//p config.yaml)" -f model.awk data/in.csv > out.csv\n',
}
SORT = "sort -rn out.csv > top.txt"

# done once, its config changed, done again
LINES = (
    "sh run.sh",
    SORT,
    "sed -i 's/rate: 3/rate: 5/' config.yaml",
    "echo 'seed: 1' >> config.yaml",
    f"sh run.sh; {SORT}",
    "false; cat top.txt nothere",
)


def lay_out(sandbox, files=PROJECT):
    for name, text in files.items():
        sandbox.sh(f"mkdir -p $(dirname {name})")
        sandbox.write(name, text)
