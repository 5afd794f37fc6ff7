// SPDX-License-Identifier: MIT
// All of the time in one strip: how much happened when, how much of it failed, what is not loaded, and which part is
// seen below.
import { byId } from './dom.js';
import { colours } from './theme.js';

const BAR = 3; // pixels

// Up to this height; what is not loaded is hollow.
export function drawBar(ctx, x, bottom, width, high, loaded = 0) {
	ctx.fillStyle = colours.line;
	ctx.fillRect(x, bottom - high, width, high - loaded);
	ctx.fillStyle = colours.dim;
	ctx.fillRect(x, bottom - high, width, 1);
	ctx.fillRect(x, bottom - loaded, width, loaded);
}

export class Overview {
	constructor(timeline) {
		this.timeline = timeline;
		this.canvas = byId('overview');
		timeline.onDraw = () => this.draw();
		this.canvas.addEventListener('pointerdown', (event) => this.down(event));
		this.canvas.addEventListener('pointermove', (event) => event.buttons && this.move(event));
	}

	// Places of the strip, without zoom.
	x(t) {
		const { view } = this.timeline;

		return view.left + view.scale.place(t) * view.unit;
	}

	count() {
		const { model, scale, width, hollow } = this.timeline;

		if (this.counted === scale && this.width === width) return;
		[this.counted, this.width] = [scale, width];
		const n = Math.ceil(width / BAR) + 1;

		this.bars = { loaded: new Float64Array(n), all: new Float64Array(n), failed: new Float64Array(n) };
		const add = (t, many, bad) => {
			const i = Math.floor(this.x(t) / BAR);

			this.bars.all[i] += many;
			this.bars.failed[i] += bad;
			return i;
		};
		for (const c of model.commands) this.bars.loaded[add(c.begin, 1, Number(Boolean(c.status)))]++;
		for (const { t, n: many, failed } of hollow) add(t, many, failed);
		this.most = this.bars.all.reduce((a, b) => Math.max(a, b), 1);
	}

	// How high so many are.
	high(n, height) {
		return n && Math.max(Math.sqrt(n / this.most) * (height - 8), 2);
	}

	draw() {
		const { canvas } = this,
			{ view, width, model, state } = this.timeline,
			height = canvas.clientHeight,
			ratio = devicePixelRatio;

		this.count();
		if (canvas.width !== Math.round(width * ratio)) {
			canvas.width = Math.round(width * ratio);
			canvas.height = Math.round(height * ratio);
		}
		const ctx = canvas.getContext('2d'),
			[from, to] = view.window();
		const x0 = Math.max(this.x(from), view.left),
			x1 = Math.min(this.x(to), width);
		ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
		ctx.fillStyle = colours.panel;
		ctx.fillRect(0, 0, width, height);
		ctx.fillStyle = colours.mark;
		ctx.fillRect(x0, 0, x1 - x0, height);
		this.bars.all.forEach((n, i) => {
			const h = this.high(n, height),
				loaded = this.high(this.bars.loaded[i], height);

			if (h) drawBar(ctx, i * BAR, height - 2, BAR - 1, h, loaded);
			ctx.fillStyle = colours.bad;
			if (h) ctx.fillRect(i * BAR, height - 2, BAR - 1, (-h * this.bars.failed[i]) / n);
		});
		ctx.fillStyle = colours.bad;
		for (const i of state.matches ?? []) ctx.fillRect(this.x(model.commands[i].begin), 2, 1.5, 6);
		ctx.strokeStyle = colours.accent;
		ctx.strokeRect(x0 + 0.5, 0.5, Math.max(x1 - x0 - 1, 2), height - 1);
	}

	down(event) {
		const { view } = this.timeline,
			[from, to] = view.window(),
			x = event.offsetX;

		this.canvas.setPointerCapture(event.pointerId);
		this.grip = x >= this.x(from) && x <= this.x(to) ? x - (this.x(from) + this.x(to)) / 2 : 0;
		this.move(event);
	}

	move(event) {
		const { view } = this.timeline,
			x = event.offsetX - (this.grip ?? 0);
		const shown = (x - view.left) * view.k + view.left * view.k + view.x;

		view.pan((view.left + view.width) / 2 - shown);
	}
}
