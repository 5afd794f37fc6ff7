// SPDX-License-Identifier: MIT
// Which part of time is seen: the zoom, shared by all that is drawn over time.
import { select } from 'd3-selection';
import { zoom, zoomIdentity } from 'd3-zoom';

const SECOND_PX = 1e5; // at most so many pixels for a second

export class Viewport {
	// left: pixels that belong to names. scrolls(y): the wheel scrolls there.
	constructor(element, left, scrolls, onChange, onDrag) {
		this.left = left;
		this.k = 1;
		this.x = 0;
		this.onChange = onChange;
		this.element = select(element);
		this.behaviour = zoom()
			.filter((event) => {
				const [x, y] = [event.offsetX, event.offsetY];

				if (event.type === 'wheel')
					return (
						x > this.left &&
						(event.ctrlKey || !scrolls(y)) &&
						Math.abs(event.deltaY) >= Math.abs(event.deltaX) &&
						!event.shiftKey
					);
				return !event.button && x > this.left;
			})
			.clickDistance(4)
			.on('zoom', ({ transform, sourceEvent }) => {
				if (sourceEvent?.type === 'mousemove' && transform.k === this.k)
					onDrag(sourceEvent.offsetY, transform.y - this.y);
				this.k = transform.k;
				this.x = transform.x;
				this.y = transform.y;
				this.moved = this.k > 1.001;
				onChange();
			});
		this.element.call(this.behaviour).on('dblclick.zoom', null);
	}

	resize(scale, width) {
		const window = this.scale && this.window(),
			{ moved } = this;

		this.scale = scale;
		this.width = width;
		this.unit = (width - this.left) / scale.length; // pixels for a microsecond, without zoom
		this.behaviour
			.extent([
				[this.left, 0],
				[width, 1],
			])
			.translateExtent([
				[this.left, -Infinity],
				[width, Infinity],
			])
			.scaleExtent([1, Math.max(1, SECOND_PX / 1e6 / this.unit)]);
		if (window) this.show(...window);
		this.moved = moved;
	}

	// Of a place on the scale.
	at(u) {
		return (this.left + u * this.unit) * this.k + this.x;
	}

	toX(t) {
		return this.at(this.scale.place(t));
	}

	toTime(x) {
		return this.scale.time(((x - this.x) / this.k - this.left) / this.unit);
	}

	window() {
		return [this.toTime(this.left), this.toTime(this.width)];
	}

	show(from, to) {
		const a = this.scale.place(from) * this.unit,
			b = this.scale.place(to) * this.unit;
		const k = (this.width - this.left) / Math.max(b - a, 1e-9);
		const [least, most] = this.behaviour.scaleExtent();
		const used = Math.min(Math.max(k, least), most),
			middle = this.left + (a + b) / 2;

		this.element.call(
			this.behaviour.transform,
			zoomIdentity.translate((this.left + this.width) / 2 - used * middle, 0).scale(used),
		);
	}

	fit() {
		this.element.call(this.behaviour.transform, zoomIdentity);
	}

	by(factor) {
		this.element.call(this.behaviour.scaleBy, factor);
	}

	pan(pixels) {
		this.element.call(this.behaviour.translateBy, pixels / this.k, 0);
	}

	// Brings a time into sight, near enough to tell it from its neighbours.
	reveal(t, near) {
		const x = this.toX(t),
			apart = Math.abs(this.toX(t + near) - x);

		if (apart < 8) {
			const place = this.scale.place(t),
				half = 12 * near;

			this.show(this.scale.time(place - half), this.scale.time(place + half));
		} else if (x < this.left + 30 || x > this.width - 120) {
			this.pan((this.left + this.width) / 2 - x);
		}
	}
}
