/* SPDX-License-Identifier: MIT */
/*
 * bpf-calls.h - what the system calls of this machine do, for the programs on
 * tracepoints.
 */
#pragma once

#include "common/event.h"
#include "kmod-fast-path/bpf/record.h"

/* Fills in a table that is all zeros, by the numbers of the calls. */
void shfs_bpf_calls_fill(struct shfs_bpf_call calls[static SHFS_BPF_CALLS]);
