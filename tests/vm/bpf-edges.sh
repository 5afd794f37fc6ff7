#!/bin/sh
# SPDX-License-Identifier: MIT
# In the machine: unusual uses of files, by an ordinary user.
cp /bin/edges /bin/edges-setuid
chmod 4755 /bin/edges-setuid
mkdir /tmp/p
edges /tmp/p prepare && chmod -R 777 /tmp/p || exit 2
echo "begin edges"
shfs-watch-tool bpf /tmp/p --uid 1000 --as 1000 -- edges /tmp/p || exit 3
echo "end edges"
