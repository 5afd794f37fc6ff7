"""An epidemic in each town, day by day: simulate.py CONFIG TOWNS > CASES"""

import csv
import math
import sys


def read_config(path):
    with open(path, encoding="utf-8") as lines:
        pairs = (line.split("#")[0].split(":") for line in lines if ":" in line)
        return {key.strip(): float(value) for key, value in pairs}


def epidemic(config, people, cases):
    healthy = people - cases
    for day in range(int(config["days"])):
        season = 1 + config.get("season", 0) * math.cos(2 * math.pi * day / 365)
        new = season * config["contacts"] * cases * healthy / people
        healthy, cases = healthy - new, cases + new - config["recovery"] * cases
        yield day + 1, round(cases)


config = read_config(sys.argv[1])
print("town,day,cases")
with open(sys.argv[2], encoding="utf-8") as towns:
    for town in csv.DictReader(towns):
        for day, cases in epidemic(config, int(town["people"]), float(town["first_cases"])):
            print(town["town"], day, cases, sep=",")
