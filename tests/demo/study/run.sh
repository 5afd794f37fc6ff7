#!/bin/sh
# All of it again
python3 simulate.py config.yaml data/towns.csv > cases.csv
sh peaks.sh cases.csv > peaks.txt
awk -f plot.awk peaks.txt > figure.txt
