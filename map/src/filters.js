// SPDX-License-Identifier: MIT
// Which commands are shown: by their text, and by where they ran, how they ended and what they are.
import { byId, el } from './dom.js';
import { colourBy, colourOf, groupOf, meanings } from './theme.js';
import { KINDS } from './kinds.js';
import { count, oneLine } from './text.js';

const SELECTS = { host: 'f-host', in: 'f-in', status: 'f-status' };

export class Filters {
	// changed: called when others are wanted
	constructor(model, changed) {
		Object.assign(this, { model, changed, values: {}, search: byId('search'), root: byId('filters'), legend: byId('legend'), button: byId('filter') });
		this.search.addEventListener('input', () => this.set('find', this.search.value.trim()));
		for (const [name, id] of Object.entries(SELECTS)) byId(id).addEventListener('change', ({ target }) => this.set(name, target.value));
		byId('f-stale').addEventListener('change', ({ target }) => this.set('stale', target.checked ? '1' : ''));
		byId('f-colour').addEventListener('change', ({ target }) => this.set('colour', target.value));
		byId('f-clear').addEventListener('click', () => this.apply({ colour: this.values.colour }, true));
		this.button.addEventListener('click', () => this.open(this.root.hidden));
	}

	open(open) {
		this.root.hidden = !open;
		this.button.setAttribute('aria-expanded', open);
	}

	set(name, value) {
		this.values[name] = value;
		this.apply(this.values, true, name === 'find' ? name : null);
	}

	// What an address or a person asks for.
	apply(values, told, kind) {
		this.values = Object.fromEntries(Object.entries(values).filter(([, value]) => value));
		const { find = '', colour = '', stale } = this.values;

		if (this.search.value.trim() !== find) this.search.value = find;
		for (const [name, id] of Object.entries(SELECTS)) choose(byId(id), this.values[name] ?? '');
		byId('f-stale').checked = Boolean(stale);
		byId('f-colour').value = colour;
		colourBy(colour === 'stale');
		if (!told && this.active().length) this.open(true);
		this.showLegend();
		const active = this.active().length;
		this.button.textContent = active ? `Filters · ${active}` : 'Filters';
		byId('f-clear').disabled = !active && !find;
		this.changed(Boolean(told), kind);
	}

	active() {
		return Object.keys(this.values).filter((name) => name !== 'find' && name !== 'colour');
	}

	// The numbers of the commands that are wanted, or null: all.
	list() {
		const { find, host, kind, status, stale } = this.values,
			{ model } = this,
			inside = this.values.in;

		if (!find && !this.active().length) return null;
		const found = find ? model.find(find) : [...model.commands.keys()];
		const kinds = kind && new Set(kind.split(',').map((name) => KINDS.findIndex(([known]) => known === name)));
		const directories = inside && model.data.directories.map((name) => isBelow(name, inside));
		return found.filter((i) => {
			const c = model.commands[i];

			return (
				(!host || c.of.host === host) &&
				(!directories || directories[c.cwd]) &&
				(!kinds || kinds.has(c.kindOf)) &&
				(!status || hasStatus(c, status)) &&
				(!stale || c.stale === 0)
			);
		});
	}

	// What there is to choose from.
	fill(hasStale) {
		const { model } = this,
			{ commands, data } = model;
		const hosts = tally(commands, (c) => c.of.host),
			statuses = tally(commands, (c) => (c.status === null ? undefined : String(c.status))),
			directories = new Map();

		for (const [place, n] of tally(commands, (c) => c.cwd))
			for (let name = data.directories[place]; name; name = name.slice(0, name.lastIndexOf('/'))) {
				directories.set(name, (directories.get(name) ?? 0) + n);
				if (!name.startsWith(model.root)) break;
			}
		options(byId('f-host'), 'any host', [...hosts].map(([name, n]) => [name, oneLine(name), n]));
		options(byId('f-in'), 'any directory', [...directories].sort(byName).map(([name, n]) => [name, shortOf(model, name), n]));
		options(byId('f-status'), 'any exit status', [
			['ok', 'ok', statuses.get('0') ?? 0],
			['failed', 'failed', commands.filter((c) => c.status).length],
			...[...statuses].filter(([status]) => status !== '0').sort(([a], [b]) => a - b).map(([status, n]) => [status, `exit ${status}`, n]),
		]);
		byId('f-host').parentElement.hidden = hosts.size < 2 && !this.values.host;
		byId('f-stale').parentElement.hidden = byId('f-colour').parentElement.hidden = !hasStale;
		for (const [name, id] of Object.entries(SELECTS)) choose(byId(id), this.values[name] ?? '');
		this.showLegend();
	}

	// What the colours mean; of kinds, each is a filter.
	showLegend() {
		const staleness = this.values.colour === 'stale',
			numbers = tally(this.model.commands, groupOf),
			chosen = (this.values.kind ?? '').split(',').filter(Boolean);
		const entry = (text, group) => {
			const swatch = el('span', { class: 'swatch' }),
				n = numbers.get(group) ?? 0,
				name = KINDS[group][0];

			swatch.style.background = colourOf(group);
			if (!n && (staleness || !chosen.includes(name))) return null;
			if (staleness) return el('li', {}, el('span', {}, swatch, ` ${text} `, el('span', { class: 'dim' }, n.toLocaleString('en'))));
			const press = () => this.set('kind', (chosen.includes(name) ? chosen.filter((other) => other !== name) : [...chosen, name]).join(','));
			return el(
				'li',
				{},
				el(
					'button',
					{ 'aria-pressed': String(chosen.includes(name)), title: 'Only these', onclick: press },
					swatch,
					` ${text} `,
					el('span', { class: 'dim' }, n.toLocaleString('en')),
				),
			);
		};
		const focus = [...this.legend.querySelectorAll('button')].indexOf(document.activeElement);

		this.legend.replaceChildren(...meanings().map(entry).filter(Boolean));
		this.legend.querySelectorAll('button')[focus]?.focus();
	}
}

function isBelow(name, directory) {
	return name === directory || name.startsWith(`${directory}/`);
}

function hasStatus(c, wanted) {
	if (wanted === 'failed') return Boolean(c.status);
	return c.status === (wanted === 'ok' ? 0 : Number(wanted));
}

function byName([a], [b]) {
	return a < b ? -1 : 1;
}

function shortOf(model, name) {
	return name === model.root.slice(0, -1) ? '.' : model.shorten(name);
}

function tally(list, of) {
	const found = new Map();

	for (const one of list) {
		const key = of(one);

		if (key !== undefined) found.set(key, (found.get(key) ?? 0) + 1);
	}
	return found;
}

// One that is open is not changed while nothing is new.
function options(select, all, list) {
	const texts = list.map(([value, text, n]) => [value, `${text} (${count(n, 'command')})`]),
		sign = JSON.stringify(texts);

	if (select.dataset.sign === sign) return;
	select.dataset.sign = sign;
	select.replaceChildren(el('option', { value: '' }, all), ...texts.map(([value, text]) => el('option', { value }, text)));
}

// What is asked for is there to be chosen, also if nothing loaded has it.
function choose(select, value) {
	if (![...select.options].some((option) => option.value === value)) select.append(el('option', { value }, oneLine(value)));
	select.value = value;
}
