/* SPDX-License-Identifier: MIT */
/*
 * show.h - shows a graph to people (a tree of lines), to programs (JSON), and with
 * Graphviz.
 */
#pragma once

#include "query/graph/graph.h"

/* --- a tree --- */

#define SHFS_TREE_LISTED   12  /* listed leaves of one branch; further ones are counted */
#define SHFS_TREE_VERSIONS 500 /* looked at; larger parts have trees of their own */

struct shfs_tree {
	struct shfs_index *index;
	const struct shfs_style *style;
	const char *question; /* "shfs why ", for a command that continues the tree */
	size_t columns;
	struct shfs_buf out, prefix; /* prefix: the branches to the left */
	size_t level;
	int error;
};

/* Adds the line "config.yaml@2 ← 4f2a91c sed -i …". above: the command was shown already,
 * so only its id. note comes after the name. */
void shfs_tree_line(struct shfs_tree *tree, const struct shfs_graph_version *v,
                    const char *note, bool above);
/* Adds a line with only the command, and a note. */
void shfs_tree_command(struct shfs_tree *tree, const struct shfs_graph_maker *maker,
                       const char *note);
/* Adds "3 more sources"; nothing if n is 0. */
void shfs_tree_count(struct shfs_tree *tree, const char *what, size_t n, bool last);
/* Adds a dim line that is no version. */
void shfs_tree_words(struct shfs_tree *tree, const char *words, bool last);
/* Begins a level one step to the right; shfs_tree_end needs the result. */
size_t shfs_tree_begin(struct shfs_tree *tree, bool last);
void shfs_tree_end(struct shfs_tree *tree, size_t begun);
/* Would one more level leave the terminal? */
bool shfs_tree_is_deep(const struct shfs_tree *tree);
/* Adds "… shfs why config.yaml@2". */
void shfs_tree_continue(struct shfs_tree *tree, const struct shfs_graph_version *v);
/* Adds "3 commands, 2 sources". */
void shfs_tree_sum(struct shfs_tree *tree, size_t commands, size_t n, const char *what);
/* Writes out the tree and frees it. */
_must_check_ int shfs_tree_finish(struct shfs_tree *tree);

/* --- JSON: docs/json.md --- */

/* path, n */
void shfs_json_version_name(struct shfs_json *json, const char *key,
                            const struct shfs_version *version);
/* Begins the object of a maker, with its results and inputs; the caller may add members,
 * and ends it. */
_must_check_ int shfs_json_maker(struct shfs_json *json, struct shfs_index *index,
                                 const struct shfs_graph_maker *maker);

/* --- DOT --- */

/* Adds text that is escaped for people already, in double quotes; "&" would begin an
 * entity, and a backslash an escape. */
void shfs_dot_string(struct shfs_buf *out, const struct shfs_buf *text);

/* Writes a digraph: commands are boxes, versions ellipses, bold where the search began;
 * optionally with programs. */
_must_check_ int shfs_graph_dot(struct shfs_graph *graph, bool programs);
