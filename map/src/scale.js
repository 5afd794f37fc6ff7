// SPDX-License-Identifier: MIT
// From time to a line on which idle time is short, and back. Both in microseconds.

const MINUTE = 60e6,
	HOUR = 60 * MINUTE;

function lowerBound(list, value) {
	let low = 0,
		high = list.length;

	while (low < high) {
		const middle = (low + high) >> 1;

		if (list[middle] < value) low = middle + 1;
		else high = middle;
	}
	return low;
}

// How long a time without anything is idle: much longer than most are.
function idleFrom(moments) {
	const steps = [];

	for (let i = 1; i < moments.length; i++)
		if (moments[i] - moments[i - 1] > 1e6) steps.push(moments[i] - moments[i - 1]);
	const sorted = Float64Array.from(steps).sort(); // many times as fast as of an array
	return Math.min(Math.max(20 * (sorted[steps.length >> 1] ?? 0), 3 * MINUTE), HOUR);
}

export class Scale {
	// hollow: moments of what is not loaded
	constructor(commands, squeezed, hollow) {
		const moments = Float64Array.from([...commands.flatMap((c) => [c.begin, c.stop]), ...hollow.map(({ t }) => t)]).sort();
		const idle = squeezed ? idleFrom(moments) : Infinity,
			short = idle / 4;
		let u = 0;

		this.times = [moments[0] ?? 0];
		this.places = [0];
		this.gaps = []; // of idle time: {from, to}
		for (let i = 1; i < moments.length; i++) {
			const step = moments[i] - moments[i - 1];

			if (step <= idle) {
				u += step;
				continue;
			}
			this.add(moments[i - 1], u);
			u += short;
			this.add(moments[i], u);
			this.gaps.push({ from: moments[i - 1], to: moments[i] });
		}
		this.add(moments.at(-1) ?? 0, u);
		const end = Math.max(u / Math.max(12, moments.length / 4), 1e5);
		this.add(this.times.at(-1) + end, u + end); // room for the last one
		this.length = this.places.at(-1);
	}

	add(t, u) {
		if (t > this.times.at(-1)) {
			this.times.push(t);
			this.places.push(u);
		}
	}

	static map(from, to, value) {
		const i = Math.min(Math.max(lowerBound(from, value), 1), from.length - 1);
		const part = (value - from[i - 1]) / (from[i] - from[i - 1]);

		return to[i - 1] + part * (to[i] - to[i - 1]);
	}

	place(t) {
		return Scale.map(this.times, this.places, t);
	}

	time(u) {
		return Scale.map(this.places, this.times, u);
	}

	// The spans between idle times that reach into [from, to].
	spans(from, to) {
		const found = [];
		let begin = this.times[0];

		for (const gap of this.gaps) {
			if (gap.from > from && begin < to) found.push([begin, gap.from]);
			begin = gap.to;
		}
		if (begin < to) found.push([begin, this.times.at(-1)]);
		return found;
	}
}
