/* SPDX-License-Identifier: MIT */
#include "query/web/worker.h"

#include "common/io.h"
#include "query/base/json.h"
#include "query/care/beside.h"
#include "query/graph/stale.h"
#include "query/map/overview.h"
#include "query/undo/preview.h"
#include "query/undo/selection.h"
#include "recording/sandbox.h"
#include "store/index/index.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The worker writes this before the JSON of its answer. */
struct answer_head {
	int32_t error;
	uint32_t len;
};

/* --- in the process that answers --- */

struct reader {
	const struct shfs_web_reader *of;
	struct shfs_store *store;
	struct shfs_index *index;
};

static int open_reader(struct reader *reader, int answers)
{
	int writable[] = { STDERR_FILENO, answers }, r;

	if (reader->index)
		return 0;
	if (!reader->store &&
	    (r = shfs_store_open(reader->of->store_path, 0, &reader->store)))
		return r;
	r = shfs_index_open(reader->store, SHFS_INDEX_READ, &reader->index);
	r = r ?: shfs_sandbox_enter(0);
	r = r ?: shfs_sandbox_forbid_changes(writable, ARRAY_SIZE(writable));
	if (r) { /* without its filters it answers nothing */
		shfs_index_close(reader->index);
		reader->index = NULL;
	}
	return r;
}

static int put_stale(struct reader *reader, struct shfs_json *json)
{
	char *paths[] = { (char *)(reader->of->project ?: "/") };
	_cleanup_stale_ struct shfs_stale *stale = NULL;
	int r = shfs_stale_new(reader->index, paths, 1, &stale);

	if (r)
		return r;
	shfs_json_array(json, "stale");
	for (struct shfs_stale_run *run = shfs_stale_runs(stale); run; run = run->next) {
		if (!run->stale)
			continue;
		for (struct shfs_stale_file *f = run->results; f; f = f->next_result) {
			shfs_json_object(json, NULL);
			shfs_json_str(json, "path", f->path);
			shfs_json_int(json, "n", f->n);
			shfs_json_object_end(json);
		}
	}
	shfs_json_array_end(json);
	return 0;
}

/* Writes what `shfs undo --dry-run --json COMMAND` says, and whether that command has
 * changed a file. */
static int put_undo(struct reader *reader, const char *id, struct shfs_json *json)
{
	static const struct shfs_undo_options options;
	_cleanup_undo_selection_ struct shfs_undo_selection selection = {
		.index = reader->index
	};
	_cleanup_undo_plan_ struct shfs_undo_plan plan = { .store = reader->store,
		                                           .index = reader->index,
		                                           .config = reader->of->config,
		                                           .options = &options,
		                                           .selected = &selection.ids };
	_cleanup_rows_ struct shfs_rows *rows = NULL;
	int r = shfs_rows_open_str(reader->index,
	                           "SELECT command_id FROM v_command WHERE id = ?1", id,
	                           &rows);

	r = r ?: shfs_rows_next(rows);
	if (r <= 0)
		return r ?: -ENOENT;
	r = MIN(shfs_undo_select_command(&selection, shfs_rows_int(rows, 0)), 0);
	shfs_undo_selection_sort(&selection);
	shfs_json_bool(json, "any", selection.effects.n);
	r = r ?: shfs_undo_plan(&plan, &selection.effects);
	return r ?: shfs_undo_json(&plan, json);
}

static int put_answer(struct reader *reader, const struct shfs_web_question *question,
                      struct shfs_json *json)
{
	int r = -EINVAL;

	shfs_json_object(json, NULL);
	switch (question->kind) {
	case SHFS_WEB_STALE:
		r = put_stale(reader, json);
		break;
	case SHFS_WEB_OVERVIEW:
		r = shfs_map_overview(reader->index, reader->of->project, json);
		break;
	case SHFS_WEB_UNDO:
		r = put_undo(reader, question->command, json);
		break;
	}
	shfs_json_close(json);
	return r ?: json->out.failed ? -ENOMEM : 0;
}

static int answer_question(struct reader *reader,
                           const struct shfs_web_question *question, int answers)
{
	_cleanup_json_ struct shfs_json json = { 0 };
	struct answer_head head = { 0 };
	int r = open_reader(reader, answers);

	head.error = r ?: put_answer(reader, question, &json);
	if (!head.error && json.out.len > UINT32_MAX)
		head.error = -EFBIG;
	head.len = head.error ? 0 : (uint32_t)json.out.len;
	r = shfs_write_all(answers, &head, sizeof(head));
	return r ?: shfs_write_all(answers, json.out.data ?: "", head.len);
}

static _Noreturn void serve(struct reader *reader, int questions, int answers)
{
	struct shfs_web_question question;

	prctl(PR_SET_NAME, "shfs-answers");
	/* ^C is for the server: this process ends when its pipe does */
	signal(SIGINT, SIG_IGN);
	while (read(questions, &question, sizeof(question)) == sizeof(question)) {
		if (answer_question(reader, &question, answers))
			break;
		malloc_trim(0);
	}
	_exit(0);
}

int shfs_web_worker_start(struct shfs_web_worker *w, const struct shfs_web_reader *of)
{
	struct reader reader = { .of = of };
	struct shfs_beside ends;
	pid_t pid = shfs_beside_fork(&ends);

	if (!pid) {
		for (size_t i = 0; i < of->n_closes; i++)
			close(of->closes[i]);
		serve(&reader, ends.questions, ends.answers);
	}
	*w = (struct shfs_web_worker){ .ask = ends.questions, .answer = ends.answers };
	if (pid < 0)
		return pid;
	return fcntl(w->answer, F_SETFL, O_NONBLOCK) ? -errno : 0;
}

/* --- in the server --- */

int shfs_web_worker_ask(struct shfs_web_worker *w,
                        const struct shfs_web_question *question)
{
	if (write(w->ask, question, sizeof(*question)) != sizeof(*question))
		return -EPIPE;
	w->is_busy = true;
	w->come.len = 0;
	return 0;
}

/* Is the answer whole? */
static bool is_whole(struct shfs_web_worker *w)
{
	struct answer_head head;

	if (w->come.len < sizeof(head))
		return false;
	memcpy(&head, w->come.data, sizeof(head));
	if (w->come.len < sizeof(head) + head.len)
		return false;
	w->error = head.error;
	w->body.len = 0;
	shfs_buf_add(&w->body, w->come.data + sizeof(head), head.len);
	return true;
}

int shfs_web_worker_take(struct shfs_web_worker *w)
{
	char data[65536];
	ssize_t n;

	while ((n = read(w->answer, data, sizeof(data))) > 0)
		shfs_buf_add(&w->come, data, (size_t)n);
	if (w->come.failed || w->body.failed)
		w->error = -ENOMEM;
	else if (!is_whole(w) && n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	else if (!n) /* also behind an answer: there will be none to the next question */
		w->error = -EPIPE;
	w->is_busy = false;
	return 1;
}

void shfs_web_worker_end(struct shfs_web_worker *w)
{
	shfs_buf_free(&w->come);
	shfs_buf_free(&w->body);
	shfs_closep(&w->ask);
	shfs_closep(&w->answer);
}
