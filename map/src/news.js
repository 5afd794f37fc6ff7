// SPDX-License-Identifier: MIT
// Has the page of `shfs web` follow what is recorded: the server answers once there is more than was seen. Of the tabs
// of a browser one asks, and tells the others; one that is not seen asks nothing.

const AGAIN = 1000, // milliseconds: between two questions after one that brought nothing
	AWAY = 3000; // after one that failed

const pause = (ms, signal) =>
	new Promise((done) => {
		const timer = setTimeout(done, ms);

		signal.addEventListener('abort', () => (clearTimeout(timer), done()), { once: true });
	});

export class News {
	// live: knows the mark of what it has; take: a promise of that what is new is shown; away(error, or null: it is back)
	constructor(live, take, away) {
		Object.assign(this, { live, take, away, channel: new BroadcastChannel('shfs-news') });
		this.channel.addEventListener('message', ({ data }) => this.turn && this.hear(data).catch(() => {}));
		document.addEventListener('visibilitychange', () => this.look());
		this.look();
	}

	// Begins to follow, or leaves it.
	look() {
		const seen = document.visibilityState === 'visible';

		if (seen === Boolean(this.turn)) return;
		this.turn?.abort();
		this.turn = seen ? new AbortController() : null;
		if (!seen) return;
		const { signal } = this.turn;

		// what came while another tab was the one that asks
		this.live.mark().then((mark) => this.hear({ mark }), (error) => this.away(error)).catch(() => {});
		navigator.locks.request('shfs-news', { signal }, () => this.ask(signal)).catch(() => {});
	}

	// What was asked, by this tab or another one: {mark}, or {error} of a server that does not answer.
	async hear({ mark, error = null }) {
		this.away(error);
		if (!error) await this.tell(mark);
	}

	async ask(signal) {
		while (!signal.aborted) {
			const before = this.live.data.mark;
			let mark = null;

			try {
				mark = await this.live.mark(before, signal);
				this.channel.postMessage({ mark });
				await this.hear({ mark });
				if (mark === before) await pause(AGAIN, signal);
			} catch (error) {
				if (signal.aborted) return;
				// what went wrong after an answer is this tab's own
				if (mark === null) this.channel.postMessage({ error: { status: error.status } });
				this.away(error);
				await pause(AWAY, signal);
			}
		}
	}

	// One after the other; what comes meanwhile is in the last.
	async tell(mark) {
		this.latest = mark;
		if (this.busy) return this.busy;
		this.busy = (async () => {
			while (this.latest !== this.live.data.mark) {
				const wanted = this.latest,
					began = performance.now();

				await this.take(wanted);
				// on a page with very much in it that takes its time: the page is to be used in between
				await pause(3 * (performance.now() - began), this.turn?.signal ?? new AbortController().signal);
				if (wanted === this.latest) break;
			}
		})().finally(() => (this.busy = null));
		return this.busy;
	}
}
