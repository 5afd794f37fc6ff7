/* SPDX-License-Identifier: MIT */
#include "store/capture/rules.h"

#include "common/debug.h"

#include <errno.h>
#include <string.h>

/* --- built-in patterns; docs/config.md says why --- */

/* clang-format off */
static const char builtin_ignore[] =
	/* their tools can make them again at any time */
	"**/.git/objects/\n**/.git/lfs/\n**/.hg/store/\n**/.svn/pristine/\n"
	"**/.jj/repo/store/\n"
	"__pycache__/\n*.py[cod]\n.cache/\n.mypy_cache/\n.pytest_cache/\n.ruff_cache/\n"
	".ipynb_checkpoints/\n.snakemake/\n.nextflow/\n.tox/\n.nox/\n.ccache/\n"
	"node_modules/\n.Rproj.user/\n.direnv/\n.Trash-*/\n"
	/* temporary files of editors, NFS and FUSE */
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
	"client_secret*.json\nsecrets.yml\nsecrets.yaml\nsecrets.json\nsecrets.toml\n"
	".authinfo\n.smbcredentials\nrclone.conf\nssh_host_*_key\n**/.git/config\n"
	"**/.config/git/credentials\n";

/* Endings that programs and people append to the name of a file for a copy of it, or for
 * a file that is about to replace it. */
static const char *const copy_endings[] = {
	".~", "~", "-", ".bak", "-bak", "_bak", ".backup", "-backup", "_backup", ".old",
	"-old", "_old", ".orig", ".save", ".saved", ".prev", ".copy", " copy", " (copy)",
	".tmp", ".temp", ".new", ".part", ".lock", ".rej", ".swp", ".swo", ".swn",
};

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
	/* gitignore knows ASCII only, whatever the locale. */
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
 * Parses [[:name:]], with p at the inner '['. 1: *in says whether c is in the class,
 * *next is behind it; 0: it is an ordinary '['; -1: the pattern is malformed and matches
 * nothing.
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

/* Is c in the [...] at *p? Moves *p behind it. False if it is malformed. */
static bool glob_class(const char **p, unsigned char c)
{
	const char *q = *p + 1;
	bool negated = *q == '!' || *q == '^', found = false;
	unsigned char low = 0; /* begin of a range if a '-' follows; 0: none */

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

/* Does the one pattern element at *p match c? Moves *p behind it. */
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

/* A position to come back to: pattern is behind stars, which so far match the text before
 * `text`. */
struct glob_retry {
	const char *pattern, *text;
	bool by_component; /* "**" and a slash: text must begin at a component */
};

/* Reads the stars at *p. True: they match slashes too ("**" between slashes). */
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

/* Lets the stars of retry match more; false if they cannot. */
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
 * Goes back only to the last "*" and the last "**": the later one can match all that an
 * earlier one could. So the time is polynomial, even for malicious patterns.
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
	size_t len, prefix_len; /* prefix_len: bytes before the first glob character */
	enum pattern_kind kind;
	bool negated, directory_only;
};

/* Most patterns are names and suffixes: these are looked up, not tried one by one. */
struct lookup {
	const char *key; /* the name; of a suffix the part from its last dot on */
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
	struct pattern_list secret; /* the patterns of ignore that are for secrets */
};

static size_t plain_length(const char *s)
{
	return strcspn(s, "*?[\\");
}

/* Cuts off blanks at the end that no backslash protects. */
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

/* Parses line, one trimmed pattern, and takes ownership of it. */
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

/* Sorts the patterns into names, suffixes and others. */
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

static void pattern_list_free(struct pattern_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->patterns[i].text);
	free(list->patterns);
	free(list->names);
	free(list->suffixes);
	free(list->others);
}

/* The path to match and its last component, both NUL-terminated. */
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
		/* The plain prefix is cut off first: the rest of "a**" + "/b" then starts
		 * with stars, which gitignore takes for stars between slashes. */
		return p->prefix_len <= s->path_len &&
		       memcmp(p->text, s->path, p->prefix_len) == 0 &&
		       glob_match(p->text + p->prefix_len, s->path + p->prefix_len);
	}
	return false;
}

/* Finds the last pattern with this key that matches, as index + 1; 0: none. */
static size_t lookup_last(const struct pattern_list *list, const struct lookup *table,
                          size_t n, const char *key, const struct subject *s)
{
	size_t low = 0, high = n;

	while (low < high) { /* to the last entry with this key */
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

/* Finds the last pattern that matches, or NULL. */
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
 * Is fn true for the path, or for a directory above it? path is changed during the call:
 * each slash in turn becomes a NUL.
 */
static bool any_part(char *path, size_t len, bool directory,
                     bool (*fn)(const void *arg, const struct subject *s),
                     const void *arg)
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
		bool found;

		*end = '\0';
		found = fn(arg, &s);
		if (slash)
			*slash = '/';
		if (found || !slash)
			return found;
		name = slash + 1;
	}
}

/* Does the list choose the path? */
static bool list_chooses(const void *list, const struct subject *s)
{
	const struct pattern *found = list_find(list, s);

	return found && !found->negated;
}

/* --- files that are secret by their names, and their copies --- */

/* A part of a name. */
struct piece {
	const char *text;
	size_t len;
};

/* Cuts off an ending of a copy: one of the list, or a number. */
static bool cut_ending(struct piece *p)
{
	size_t n = p->len;

	for (size_t i = 0; i < ARRAY_SIZE(copy_endings); i++) {
		size_t len = strlen(copy_endings[i]);

		if (p->len > len &&
		    !memcmp(p->text + p->len - len, copy_endings[i], len)) {
			p->len -= len;
			return true;
		}
	}
	while (n && p->text[n - 1] >= '0' && p->text[n - 1] <= '9')
		n--;
	if (n == p->len || n < 2 || !strchr(".-_~", p->text[n - 1]))
		return false;
	p->len = n - (p->text[n - 1] != '~'); /* of NAME.~2~ */
	return true;
}

/* Cuts off what editors and rsync put around a name: #NAME#, .#NAME, .NAME.swp,
 * .NAME.XXXXXX */
static bool cut_around(struct piece *p)
{
	size_t front = 1, behind = 0, len = p->len;
	const char *t = p->text;

	if (len > 2 && t[0] == '#' && t[len - 1] == '#')
		behind = 1;
	else if (len > 2 && !memcmp(t, ".#", 2))
		front = 2;
	else if (len > 8 && t[0] == '.' && t[len - 7] == '.')
		behind = 7;
	else if (len > 5 && t[0] == '.' && !memcmp(t + len - 4, ".sw", 3))
		behind = 4;
	else
		return false;
	p->text += front;
	p->len -= front + behind;
	return true;
}

/* Would the file be secret if piece were its name? */
static bool is_secret_as(const struct shfs_rules *rules, const struct subject *s,
                         const struct piece *piece)
{
	size_t at = (size_t)(s->name - s->path);
	_cleanup_free_ char *path = malloc(at + piece->len + 1);
	struct subject as = {
		.path = path,
		.name = path + at,
		.path_len = at + piece->len,
		.name_len = piece->len,
		.directory = s->directory,
	};

	if (!path) /* better to miss a content than to archive a secret */
		return true;
	memcpy(path, s->path, at);
	memcpy(path + at, piece->text, piece->len);
	path[as.path_len] = '\0';
	return list_chooses(&rules->secret, &as) && list_chooses(&rules->ignore, &as);
}

/* Would the file be secret if piece were its name, or piece without endings of a copy? */
static bool is_secret_cut(const struct shfs_rules *rules, const struct subject *s,
                          struct piece piece)
{
	while (cut_ending(&piece))
		if (is_secret_as(rules, s, &piece))
			return true;
	return false;
}

static bool is_secret_subject(const void *arg, const struct subject *s)
{
	const struct shfs_rules *rules = arg;
	const struct pattern *found = list_find(&rules->ignore, s);
	struct piece piece = { s->name, s->name_len };

	if (found && found->negated)
		return false;
	if ((found && list_chooses(&rules->secret, s)) || is_secret_cut(rules, s, piece))
		return true;
	return cut_around(&piece) &&
	       (is_secret_as(rules, s, &piece) || is_secret_cut(rules, s, piece));
}

/* --- the rules --- */

int shfs_rules_new(const struct shfs_config *config, const char *shfsignore,
                   struct shfs_rules **out)
{
	struct shfs_rules *rules = calloc(1, sizeof(*rules));
	struct pattern_list *ignore, *read, *secret;

	if (!rules)
		return -ENOMEM;
	ignore = &rules->ignore;
	read = &rules->archive_read;
	secret = &rules->secret;
	if (list_add_text(ignore, builtin_ignore) < 0 ||
	    list_add_text(ignore, builtin_secrets) < 0 ||
	    list_add_text(ignore, config->ignore) < 0 ||
	    list_add_text(ignore, shfsignore) < 0 || list_finish(ignore) < 0 ||
	    list_add_text(read, builtin_archive_read) < 0 ||
	    list_add_text(read, config->archive_read) < 0 || list_finish(read) < 0 ||
	    list_add_text(secret, builtin_secrets) < 0 || list_finish(secret) < 0) {
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
	pattern_list_free(&rules->ignore);
	pattern_list_free(&rules->archive_read);
	pattern_list_free(&rules->secret);
	free(rules);
}

static enum shfs_rule match(const struct shfs_rules *rules, char *path, size_t len,
                            bool directory)
{
	if (any_part(path, len, directory, list_chooses, &rules->ignore) ||
	    any_part(path, len, directory, is_secret_subject, rules))
		return SHFS_RULE_IGNORE;
	if (any_part(path, len, directory, list_chooses, &rules->archive_read))
		return SHFS_RULE_ARCHIVE_READ;
	return SHFS_RULE_ARCHIVE;
}

enum shfs_rule shfs_rules_match(const struct shfs_rules *rules, const char *path,
                                bool directory)
{
	_cleanup_free_ char *large = NULL;
	char small[512], *copy = small;
	size_t len = strlen(path);
	enum shfs_rule rule;

	if (len == 0)
		return SHFS_RULE_ARCHIVE;
	if (len >= sizeof(small)) {
		copy = large = malloc(len + 1);
		if (!large) /* better to miss a content than to archive a secret */
			return SHFS_RULE_IGNORE;
	}
	memcpy(copy, path, len + 1);
	rule = match(rules, copy, len, directory);
	if (rule == SHFS_RULE_IGNORE)
		shfs_debug(CAPTURE, "%s: a rule leaves out what it holds", path);
	return rule;
}

bool shfs_rules_is_secret(const struct shfs_rules *rules, const char *path,
                          bool directory)
{
	_cleanup_free_ char *copy = strdup(path);

	return !copy || any_part(copy, strlen(copy), directory, is_secret_subject, rules);
}
