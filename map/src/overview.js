// SPDX-License-Identifier: MIT
// All of the time in one strip: how much happened when, and which part is seen below.
import { byId } from './dom.js';
import { colours } from './theme.js';

const BAR = 3; // pixels

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
		const { model, scale, width } = this.timeline;

		if (this.counted === scale && this.width === width) return;
		[this.counted, this.width] = [scale, width];
		this.bars = new Float64Array(Math.ceil(width / BAR) + 1);
		for (const c of model.commands) this.bars[Math.floor(this.x(c.begin) / BAR)]++;
		this.most = this.bars.reduce((a, b) => Math.max(a, b), 1);
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
		ctx.fillStyle = colours.dim;
		this.bars.forEach((n, i) => {
			const h = n && Math.max(Math.sqrt(n / this.most) * (height - 8), 2);

			ctx.fillRect(i * BAR, height - 2 - h, BAR - 1, h);
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
