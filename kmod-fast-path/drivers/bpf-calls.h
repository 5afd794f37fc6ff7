/* SPDX-License-Identifier: MIT */
/*
 * bpf-calls.h - what each system call of this machine does, for the BPF programs on
 * tracepoints.
 */
#pragma once

#include "common/event.h"
#include "kmod-fast-path/bpf/record.h"

/* Fills in the table, which is all zeros before, by system call number. */
void shfs_bpf_calls_fill(struct shfs_bpf_call calls[static SHFS_BPF_CALLS]);
