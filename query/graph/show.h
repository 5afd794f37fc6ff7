/* SPDX-License-Identifier: MIT */
/*
 * show.h - a graph for people (a tree of lines), for programs (JSON), and for
 * Graphviz.
 */
#pragma once

#include "query/graph/graph.h"

/* --- a tree --- */

#define SHFS_TREE_LISTED                                                                 \
	12 /* leaves of one branch that are listed; others are counted                   \
	    */
#define SHFS_TREE_VERSIONS                                                               \
	500 /* that are looked at: what else there is has a tree of its own */

struct shfs_tree {
	struct shfs_index *index;
	const struct shfs_style *style;
	const char *question; /* "shfs why ", which goes on where the tree ends */
	size_t columns;
	struct shfs_buf out, prefix; /* prefix: the branches further left */
	size_t level;
	int error;
};

/* config.yaml@2 ← 4f2a91c  sed -i …; above: the command was shown, its id is enough. note
 * stands behind the name. */
void shfs_tree_line(struct shfs_tree *tree, const struct shfs_graph_version *v,
                    const char *note, bool above);
/* The command alone, and a note. */
void shfs_tree_command(struct shfs_tree *tree, const struct shfs_graph_maker *maker,
                       const char *note);
/* "3 more sources"; nothing where n is 0. */
void shfs_tree_count(struct shfs_tree *tree, const char *what, size_t n, bool last);
/* A line that is no version; dim. */
void shfs_tree_words(struct shfs_tree *tree, const char *words, bool last);
/* What stands between these is one step further to the right. Returns what end wants. */
size_t shfs_tree_begin(struct shfs_tree *tree, bool last);
void shfs_tree_end(struct shfs_tree *tree, size_t begun);
/* Would one more step leave the terminal? */
bool shfs_tree_is_deep(const struct shfs_tree *tree);
/* "… shfs why config.yaml@2" */
void shfs_tree_continue(struct shfs_tree *tree, const struct shfs_graph_version *v);
/* "3 commands, 2 sources" */
void shfs_tree_sum(struct shfs_tree *tree, size_t commands, size_t n, const char *what);
/* Writes it out and frees it. */
_must_check_ int shfs_tree_finish(struct shfs_tree *tree);

/* --- JSON: docs/json.md --- */

/* path, n */
void shfs_json_version_name(struct shfs_json *json, const char *key,
                            const struct shfs_version *version);
/* A maker, with what it made and its inputs; the caller may add to it and ends it. */
_must_check_ int shfs_json_maker(struct shfs_json *json, struct shfs_index *index,
                                 const struct shfs_graph_maker *maker);

/* --- DOT --- */

/* Text that is escaped for people already, in double quotes; "&" would begin an entity,
 * and a backslash a letter's place. */
void shfs_dot_string(struct shfs_buf *out, const struct shfs_buf *text);

/* Writes a digraph: commands are boxes, versions ellipses, bold where the search began;
 * with programs, these too. */
_must_check_ int shfs_graph_dot(struct shfs_graph *graph, bool programs);
