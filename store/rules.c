/* SPDX-License-Identifier: MIT */
#include "store/rules.h"

#include <errno.h>
#include <string.h>

/* --- what is built in; docs/config.md says why --- */

/* clang-format off */
static const char builtin_ignore[] =
	/* made again by their tools at any time */
	"**/.git/objects/\n**/.git/lfs/\n**/.hg/store/\n**/.svn/pristine/\n"
	"**/.jj/repo/store/\n"
	"__pycache__/\n*.py[cod]\n.cache/\n.mypy_cache/\n.pytest_cache/\n.ruff_cache/\n"
	".ipynb_checkpoints/\n.snakemake/\n.nextflow/\n.tox/\n.nox/\n.ccache/\n"
	"node_modules/\n.Rproj.user/\n.direnv/\n.Trash-*/\n"
	/* there for moments: editors, NFS, FUSE */
	".nfs*\n.fuse_hidden*\n.*.sw[a-p]\n.*.un~\n*~\n\\#*#\n.#*\n4913\n.goutputstream-*\n";

static const char builtin_secrets[] =
	".env\n.env.*\n!.env.example\n!.env.sample\n!.env.template\n.envrc\n*.env\n"
	"*.pem\n*.key\n*.p8\n*.p12\n*.pfx\n*.jks\n*.keystore\n*.kdbx\n*.kdb\n*.ppk\n"
	"*.keytab\n*.agekey\n*.ovpn\n"
	"id_rsa*\nid_dsa*\nid_ecdsa*\nid_ed25519*\n"
	".ssh/\n.gnupg/\n.password-store/\n**/.aws/credentials\n**/.aws/sso/\n.azure/\n"
	"**/.config/gcloud/\n**/.config/gh/hosts.yml\n**/.kube/config\n"
	"**/.docker/config.json\n"
	"**/.config/rclone/\n**/.local/share/keyrings/\n.oci/\n.kaggle/\nkaggle.json\n.databrickscfg\n"
	"kubeconfig\n*.kubeconfig\n*.tfstate\n*.tfstate.*\n*.tfvars\n.terraformrc\n"
	"credentials.tfrc.json\n.dockercfg\n**/.cargo/credentials*\n**/.gem/credentials\n"
	".*_history\nservice-account*.json\n"
	".netrc\n_netrc\n.pgpass\n.my.cnf\n.mylogin.cnf\n.pypirc\n.npmrc\n.htpasswd\n"
	".git-credentials\n.Renviron\n.vault-token\n.s3cfg\n.boto\ncredentials.json\n"
	"client_secret*.json\nsecrets.yml\nsecrets.yaml\nsecrets.json\nsecrets.toml\n";

static const char builtin_archive_read[] =
	/* scripts, and sources that are run as they are */
	"*.sh\n*.bash\n*.zsh\n*.fish\n*.csh\n*.ksh\n*.ps1\n*.bat\n*.py\n*.pyx\n*.R\n*.r\n"
	"*.Rmd\n*.qmd\n*.jl\n*.m\n*.pl\n*.pm\n*.rb\n*.lua\n*.js\n*.mjs\n*.cjs\n*.ts\n"
	"*.sql\n*.awk\n*.sed\n*.tcl\n*.do\n*.sas\n*.sps\n*.gp\n*.gnuplot\n*.plt\n*.praat\n"
	"*.stan\n*.wl\n*.wls\n*.nix\n"
	/* how things are built and run */
	"Makefile\nmakefile\nGNUmakefile\n*.mk\n*.mak\nCMakeLists.txt\n*.cmake\n"
	"meson.build\nmeson_options.txt\nSnakefile\n*.smk\n*.nf\n*.cwl\n*.wdl\n"
	"Dockerfile\n*.dockerfile\nContainerfile\n*.def\nJustfile\njustfile\nSConstruct\n"
	"wscript\nRakefile\n*.sbatch\n*.slurm\n*.pbs\n*.lsf\n*.sge\n*.job\n"
	/* configuration and parameters */
	"*.yaml\n*.yml\n*.toml\n*.json\n*.json5\n*.jsonc\n*.ini\n*.cfg\n*.conf\n*.config\n"
	"*.cnf\n*.xml\n*.properties\n*.params\n*.param\n*.par\n*.prm\n*.opt\n*.options\n"
	"*.nml\n*.namelist\n*.in\n*.inp\n*.mdp\n*.gin\n*.top\n*.itp\n*.ctl\n*.rc\n*.tf\n"
	"*.env.example\n*.env.sample\n*.env.template\n"
	"requirements*.txt\nconstraints*.txt\nconda-lock*\nPipfile\n*.lock\nDESCRIPTION\n"
	"NAMESPACE\n.Rprofile\ngo.mod\n.shfsignore\n.gitignore\n";
/* clang-format on */

/* --- one pattern, with "*" --- */

static bool class_named(const char *name, size_t len, unsigned char c, bool *in)
{
	/* gitignore knows ASCII alone, whatever the locale. */
	bool lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z';
	bool digit = c >= '0' && c <= '9', graph = c > ' ' && c < 0x7f;
	const struct {
		const char *name;
		bool in;
	} classes[] = {
		{ "alnum", lower || upper || digit },
		{ "alpha", lower || upper },
		{ "blank", c == ' ' || c == '\t' },
		{ "cntrl", c < ' ' || c == 0x7f },
		{ "digit", digit },
		{ "graph", graph },
		{ "lower", lower },
		{ "print", graph || c == ' ' },
		{ "punct", graph && !lower && !upper && !digit },
		{ "space", c == ' ' || (c >= '\t' && c <= '\r') },
		{ "upper", upper },
		{ "xdigit", digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') },
	};

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		if (strlen(classes[i].name) == len &&
		    memcmp(name, classes[i].name, len) == 0) {
			*in = classes[i].in;
			return true;
		}
	}
	return false;
}

/*
 * [[:name:]] at p (which is at the inner '['): 1 with *in and *next behind it, 0 if it is
 * an ordinary '[', -1 if the pattern is malformed and matches nothing.
 */
static int glob_class_name(const char *p, unsigned char c, bool *in, const char **next)
{
	const char *name = p + 2, *close = strchr(name, ']');

	if (!close)
		return -1;
	if (close == name || close[-1] != ':')
		return 0;
	if (!class_named(name, (size_t)(close - 1 - name), c, in))
		return -1;
	*next = close + 1;
	return 1;
}

/* [...] at *p: is c in it? *p moves behind it. Malformed: no. */
static bool glob_class(const char **p, unsigned char c)
{
	const char *q = *p + 1;
	bool negated = *q == '!' || *q == '^', found = false;
	unsigned char low = 0; /* what a '-' that follows would begin at; 0: nothing */

	if (negated)
		q++;
	for (bool first = true; first || *q != ']'; first = false) {
		bool in = false;
		int named = 0;

		if (*q == '[' && q[1] == ':')
			named = glob_class_name(q, c, &in, &q);
		if (named < 0)
			return false;
		if (named > 0) {
			low = 0;
		} else if (*q == '-' && low && q[1] && q[1] != ']') {
			q += q[1] == '\\' ? 2 : 1;
			in = *q && c >= low && c <= (unsigned char)*q;
			low = 0;
		} else {
			if (*q == '\\')
				q++;
			low = (unsigned char)*q;
			in = c == low;
		}
		if (named == 0 && !*q++)
			return false;
		found |= in;
	}
	*p = q + 1;
	return found != negated && c != '/';
}

/* Does the one pattern element at *p match c? *p moves behind it. */
static bool glob_one(const char **p, char c)
{
	switch (**p) {
	case '\0':
		return false;
	case '?':
		++*p;
		return c != '/';
	case '[':
		return glob_class(p, (unsigned char)c);
	case '\\':
		if (!*++*p)
			return false;
		break;
	}
	return *(*p)++ == c;
}

/* A place to come back to: behind stars at pattern, which so far took what is before
 * text. */
struct glob_retry {
	const char *pattern, *text;
	bool by_component; /* "**" and a slash: the rest begins where a component does */
};

/* Reads the stars at *p. true: they match slashes too ("**" between slashes). */
static bool glob_stars(const char *start, const char **p, struct glob_retry *retry)
{
	const char *stars = *p, *q = stars + strspn(stars, "*");
	bool deep = q - stars > 1 && (stars == start || stars[-1] == '/') &&
	            (!*q || *q == '/' || (q[0] == '\\' && q[1] == '/'));

	retry->by_component = deep && *q == '/';
	if (retry->by_component)
		q++;
	*p = retry->pattern = q;
	return deep;
}

/* Lets the stars of retry take more; false if they cannot. */
static bool glob_extend(struct glob_retry *retry, bool deep)
{
	const char *t = retry->text;

	if (!retry->pattern)
		return false;
	if (retry->by_component) {
		t = strchr(t, '/');
		if (!t)
			return false;
	} else if (!*t || (*t == '/' && !deep)) {
		return false;
	}
	retry->text = t + 1;
	return true;
}

/*
 * Going back to the last "*" and the last "**" is enough: whatever an earlier one could
 * take more of, the later one takes as well. So the time is polynomial, also for patterns
 * that were made to be slow.
 */
static bool glob_match(const char *pattern, const char *text)
{
	struct glob_retry star = { 0 }, deep = { 0 };
	const char *p = pattern, *t = text;

	for (;;) {
		if (*p == '*') {
			struct glob_retry here = { .text = t };

			if (glob_stars(pattern, &p, &here)) {
				deep = here;
				star.pattern = NULL;
			} else {
				star = here;
			}
			continue;
		}
		if (!*t && !*p)
			return true;
		if (!*t)
			return false;
		if (glob_one(&p, *t)) {
			t++;
			continue;
		}
		if (glob_extend(&star, false)) {
			p = star.pattern;
			t = star.text;
		} else if (glob_extend(&deep, true)) {
			star.pattern = NULL;
			p = deep.pattern;
			t = deep.text;
		} else {
			return false;
		}
	}
}

/* --- a list of patterns: the last that matches decides --- */

enum pattern_kind {
	PATTERN_NAME,      /* the base name is text */
	PATTERN_SUFFIX,    /* the base name ends with text */
	PATTERN_NAME_GLOB, /* the base name matches the glob text */
	PATTERN_PATH,      /* the path begins with prefix_len bytes of text, and the rest
	                      matches the glob behind it */
};

struct pattern {
	char *text;
	size_t len, prefix_len; /* prefix_len: bytes at the start that are plain */
	enum pattern_kind kind;
	bool negated, directory_only;
};

/* Most patterns are names and suffixes: these are looked up, not tried one by one. */
struct lookup {
	const char *key; /* the name; of a suffix its part from the last dot */
	size_t order;    /* index of the pattern */
};

struct pattern_list {
	struct pattern *patterns;
	size_t n, cap;
	struct lookup *names, *suffixes; /* sorted by key, then order */
	size_t n_names, n_suffixes;
	size_t *others; /* patterns to try, in order */
	size_t n_others;
};

struct shfs_rules {
	struct pattern_list ignore, archive_read;
};

static size_t plain_length(const char *s)
{
	return strcspn(s, "*?[\\");
}

/* Cuts blanks at the end that no backslash protects. */
static void trim_line(char *line)
{
	char *blanks = NULL;

	for (char *p = line; *p; p++) {
		if (*p == ' ') {
			if (!blanks)
				blanks = p;
			continue;
		}
		blanks = NULL;
		if (*p == '\\' && !*++p)
			return;
	}
	if (blanks)
		*blanks = '\0';
}

/* line: one pattern, trimmed; taken over. */
static void pattern_parse(char *line, struct pattern *out)
{
	char *text = line;
	size_t len;

	*out = (struct pattern){ .text = line };
	if (*text == '!') {
		out->negated = true;
		text++;
	}
	len = strlen(text);
	if (len && text[len - 1] == '/') {
		out->directory_only = true;
		text[--len] = '\0';
	}
	if (!strchr(text, '/')) {
		if (plain_length(text) == len)
			out->kind = PATTERN_NAME;
		else if (text[0] == '*' && plain_length(text + 1) == len - 1)
			out->kind = PATTERN_SUFFIX;
		else
			out->kind = PATTERN_NAME_GLOB;
		if (out->kind == PATTERN_SUFFIX)
			text++;
	} else {
		out->kind = PATTERN_PATH;
		if (*text == '/')
			text++;
	}
	/* text stays malloc'ed from its start */
	out->len = strlen(text);
	memmove(line, text, out->len + 1);
	out->prefix_len = plain_length(line);
}

static int list_add_line(struct pattern_list *list, const char *line, size_t len)
{
	_cleanup_free_ char *copy = NULL;

	if (len == 0 || line[0] == '#')
		return 0;
	if (!MAKE_ROOM(list->patterns, list->n, list->cap))
		return -ENOMEM;
	copy = strndup(line, len);
	if (!copy)
		return -ENOMEM;
	trim_line(copy);
	if (*copy)
		pattern_parse(TAKE_PTR(copy), &list->patterns[list->n++]);
	return 0;
}

static int list_add_text(struct pattern_list *list, const char *text)
{
	if (!text)
		return 0;
	if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3;
	while (*text) {
		size_t len = strcspn(text, "\n");
		bool cr = len && text[len - 1] == '\r';
		int err = list_add_line(list, text, len - cr);

		if (err < 0)
			return err;
		text += len + (text[len] == '\n');
	}
	return 0;
}

static int lookup_compare(const void *a, const void *b)
{
	const struct lookup *x = a, *y = b;
	int order = strcmp(x->key, y->key);

	return order ? order : (x->order > y->order) - (x->order < y->order);
}

/* Sorts the patterns into the three ways to find them. */
static int list_finish(struct pattern_list *list)
{
	list->names = calloc(list->n + 1, sizeof(*list->names));
	list->suffixes = calloc(list->n + 1, sizeof(*list->suffixes));
	list->others = calloc(list->n + 1, sizeof(*list->others));
	if (!list->names || !list->suffixes || !list->others)
		return -ENOMEM;

	for (size_t i = 0; i < list->n; i++) {
		const struct pattern *p = &list->patterns[i];
		const char *dot = strrchr(p->text, '.');

		if (p->kind == PATTERN_NAME)
			list->names[list->n_names++] = (struct lookup){ p->text, i };
		else if (p->kind == PATTERN_SUFFIX && dot)
			list->suffixes[list->n_suffixes++] = (struct lookup){ dot, i };
		else
			list->others[list->n_others++] = i;
	}
	qsort(list->names, list->n_names, sizeof(*list->names), lookup_compare);
	qsort(list->suffixes, list->n_suffixes, sizeof(*list->suffixes), lookup_compare);
	return 0;
}

static void list_free(struct pattern_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->patterns[i].text);
	free(list->patterns);
	free(list->names);
	free(list->suffixes);
	free(list->others);
}

/* What is asked: a path and its last component, both NUL-terminated. */
struct subject {
	const char *path, *name;
	size_t path_len, name_len;
	bool directory;
};

static bool pattern_matches(const struct pattern *p, const struct subject *s)
{
	if (p->directory_only && !s->directory)
		return false;
	switch (p->kind) {
	case PATTERN_NAME:
		return strcmp(p->text, s->name) == 0;
	case PATTERN_SUFFIX:
		return p->len <= s->name_len &&
		       strcmp(p->text, s->name + s->name_len - p->len) == 0;
	case PATTERN_NAME_GLOB:
		return glob_match(p->text, s->name);
	case PATTERN_PATH:
		/* The plain part is cut off first: "a**" + "/b" then starts with stars,
		 * which gitignore takes as between slashes. */
		return p->prefix_len <= s->path_len &&
		       memcmp(p->text, s->path, p->prefix_len) == 0 &&
		       glob_match(p->text + p->prefix_len, s->path + p->prefix_len);
	}
	return false;
}

/* The last pattern of key's group that matches, as index + 1; 0: none. */
static size_t lookup_last(const struct pattern_list *list, const struct lookup *table,
                          size_t n, const char *key, const struct subject *s)
{
	size_t low = 0, high = n;

	while (low < high) { /* to the end of the group */
		size_t middle = low + (high - low) / 2;

		if (strcmp(table[middle].key, key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low > 0 && strcmp(table[low - 1].key, key) == 0; low--)
		if (pattern_matches(&list->patterns[table[low - 1].order], s))
			return table[low - 1].order + 1;
	return 0;
}

/* The last pattern that matches, or NULL. */
static const struct pattern *list_find(const struct pattern_list *list,
                                       const struct subject *s)
{
	const char *dot = strrchr(s->name, '.');
	size_t best = lookup_last(list, list->names, list->n_names, s->name, s);

	if (dot) {
		size_t suffix =
			lookup_last(list, list->suffixes, list->n_suffixes, dot, s);

		best = MAX(best, suffix);
	}
	for (size_t i = list->n_others; i > 0 && list->others[i - 1] + 1 > best; i--) {
		if (pattern_matches(&list->patterns[list->others[i - 1]], s)) {
			best = list->others[i - 1] + 1;
			break;
		}
	}
	return best ? &list->patterns[best - 1] : NULL;
}

/*
 * Does the list choose path, or a directory above it? path is changed for the time of the
 * call: each slash in turn ends it.
 */
static bool list_matches(const struct pattern_list *list, char *path, size_t len,
                         bool directory)
{
	char *name = path;

	for (;;) {
		char *slash = strchr(name, '/'), *end = slash ? slash : path + len;
		const struct subject s = {
			.path = path,
			.name = name,
			.path_len = (size_t)(end - path),
			.name_len = (size_t)(end - name),
			.directory = slash || directory,
		};
		const struct pattern *found;

		*end = '\0';
		found = list_find(list, &s);
		if (slash)
			*slash = '/';
		if (found && !found->negated)
			return true;
		if (!slash)
			return false;
		name = slash + 1;
	}
}

/* --- the rules --- */

int shfs_rules_new(const struct shfs_config *config, const char *shfsignore,
                   struct shfs_rules **out)
{
	struct shfs_rules *rules = calloc(1, sizeof(*rules));
	struct pattern_list *ignore, *read;

	if (!rules)
		return -ENOMEM;
	ignore = &rules->ignore;
	read = &rules->archive_read;
	if (list_add_text(ignore, builtin_ignore) < 0 ||
	    list_add_text(ignore, builtin_secrets) < 0 ||
	    list_add_text(ignore, config->ignore) < 0 ||
	    list_add_text(ignore, shfsignore) < 0 || list_finish(ignore) < 0 ||
	    list_add_text(read, builtin_archive_read) < 0 ||
	    list_add_text(read, config->archive_read) < 0 || list_finish(read) < 0) {
		shfs_rules_free(rules);
		return -ENOMEM;
	}
	*out = rules;
	return 0;
}

int shfs_rules_of_secrets(struct shfs_rules **out)
{
	struct shfs_rules *rules = calloc(1, sizeof(*rules));

	if (!rules)
		return -ENOMEM;
	if (list_add_text(&rules->ignore, builtin_secrets) < 0 ||
	    list_finish(&rules->ignore) < 0 || list_finish(&rules->archive_read) < 0) {
		shfs_rules_free(rules);
		return -ENOMEM;
	}
	*out = rules;
	return 0;
}

void shfs_rules_free(struct shfs_rules *rules)
{
	if (!rules)
		return;
	list_free(&rules->ignore);
	list_free(&rules->archive_read);
	free(rules);
}

enum shfs_rule shfs_rules_match(const struct shfs_rules *rules, const char *path,
                                bool directory)
{
	_cleanup_free_ char *large = NULL;
	char small[512], *copy = small;
	size_t len = strlen(path);

	if (len == 0)
		return SHFS_RULE_ARCHIVE;
	if (len >= sizeof(small)) {
		copy = large = malloc(len + 1);
		if (!large) /* rather a content too few than a secret too many */
			return SHFS_RULE_IGNORE;
	}
	memcpy(copy, path, len + 1);
	if (list_matches(&rules->ignore, copy, len, directory))
		return SHFS_RULE_IGNORE;
	if (list_matches(&rules->archive_read, copy, len, directory))
		return SHFS_RULE_ARCHIVE_READ;
	return SHFS_RULE_ARCHIVE;
}
