// SPDX-License-Identifier: MIT
// The axis: days above, times below, what is idle between.
import { scaleTime } from 'd3-scale';
import { colours } from './theme.js';
import { clock, date, day, duration } from './text.js';

export const AXIS_HEIGHT = 42;
const TICK = 84,
	GAP = 16; // pixels: from tick to tick, between labels

export function drawAxis(ctx, view, height) {
	const [from, to] = view.window();
	let dayEnd = 0,
		timeEnd = view.left,
		years = date(from).slice(0, 4) !== date(to).slice(0, 4);

	ctx.font = `12px ${colours.ui}`;
	ctx.textBaseline = 'middle';
	for (const gap of view.scale.gaps)
		if (gap.to > from && gap.from < to)
			drawGap(
				ctx,
				Math.max(view.toX(gap.from), view.left),
				Math.min(view.toX(gap.to), view.width),
				gap,
				height,
			);
	const label = (us) => day(us) + (years ? ` ${date(us).slice(0, 4)}` : '');
	const putDay = (x, us) => {
		const text = label(us),
			at = Math.max(x, view.left) + 4,
			end = at + ctx.measureText(text).width;

		if ((at < dayEnd + GAP && dayEnd) || end > view.width - 4) return;
		ctx.fillStyle = colours.text;
		ctx.fillText(text, at, 11);
		dayEnd = end;
	};
	let last = null;
	for (const [begin, end] of view.scale.spans(from, to)) {
		const a = Math.max(begin, from),
			b = Math.min(end, to),
			x0 = view.toX(a),
			x1 = view.toX(b);
		const n = Math.floor((x1 - x0) / TICK),
			axis = scaleTime().domain([a / 1000, b / 1000]);

		if (date(a) !== last) putDay(x0, a);
		last = date(a);
		if (n < 1 && x1 - x0 < 3) continue;
		for (const tick of axis.ticks(Math.max(n, 1))) {
			const us = tick.getTime() * 1000,
				x = Math.round(view.toX(us)) + 0.5;

			if (date(us) !== last) {
				putDay(x, us);
				last = date(us);
			}
			drawTick(ctx, x, n * 86400e6 > b - a ? clock(us) : '', x1, height);
		}
	}

	// end: labels do not go beyond it.
	function drawTick(context, x, text, end, bottom) {
		context.strokeStyle = colours.line;
		context.beginPath();
		context.moveTo(x, 24);
		context.lineTo(x, bottom);
		context.stroke();
		const width = context.measureText(text).width;

		if (x < timeEnd + GAP / 2 || !text || x + 4 + width > end) return;
		context.fillStyle = colours.dim;
		context.fillText(text, x + 4, 31);
		timeEnd = x + 4 + width;
	}
}

function drawGap(ctx, x0, x1, gap, height) {
	if (x1 - x0 < 3) return;
	ctx.fillStyle = colours.faint;
	ctx.fillRect(x0, 22, x1 - x0, height - 22);
	const text = duration(gap.to - gap.from).replace(/ (0 s|00 min|0 h)$/, '');
	const width = ctx.measureText(text).width;

	if (x1 - x0 > width + 8) {
		ctx.fillStyle = colours.dim;
		ctx.fillText(text, (x0 + x1 - width) / 2, 31);
	}
}
