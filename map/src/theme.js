// SPDX-License-Identifier: MIT
// Colours: those of the style sheet, for what is drawn on a canvas; and those of groups of commands.
import { KINDS } from './kinds.js';

// For a light and a dark ground, each with a contrast of 4.5 to it: letters on them have the ground's colour.
const OF_KINDS = [
	['#1f5fa8', '#7fb0e6'],
	['#b3401f', '#f08a6a'],
	['#5b3fa0', '#b7a0f0'],
	['#00705c', '#5cc9ae'],
	['#a3226f', '#ee8fc3'],
	['#8a5a00', '#d9a441'],
	['#5c6670', '#a9b2bd'],
	['#5a6a00', '#b8c255'],
];
const STALENESS = [
	['What it made is stale', '#a85b00', '#f0b060'],
	['Not stale', '#2f6fb3', '#7fb0e6'],
	['Made no result', '#5f646c', '#9098a3'],
];

export const GROUPS = KINDS.length;
const dark = matchMedia('(prefers-color-scheme: dark)');

export const colours = {};
const by = { staleness: false };

function read() {
	const style = getComputedStyle(document.documentElement);

	for (const name of ['ground', 'panel', 'text', 'dim', 'line', 'faint', 'accent', 'bad', 'mark'])
		colours[name] = style.getPropertyValue(`--${name}`).trim();
	colours.ui = style.getPropertyValue('--ui').trim();
	colours.mono = style.getPropertyValue('--mono').trim();
}

// What colours mean: kinds of programs, or whether results are stale.
export function colourBy(staleness) {
	by.staleness = staleness;
}

// The number of what a command is shown as; its colour; and what that means.
export function groupOf(c) {
	return by.staleness ? (c.stale ?? 2) : c.kindOf;
}

export function colourOf(group) {
	const [light, night] = by.staleness ? STALENESS[group].slice(1) : OF_KINDS[group];

	return dark.matches ? night : light;
}

export function meanings() {
	return by.staleness ? STALENESS.map(([text]) => text) : KINDS.map(([, text]) => text);
}

export function ofCommand(c) {
	return colourOf(groupOf(c));
}

export function watchTheme(changed) {
	read();
	dark.addEventListener('change', () => {
		read();
		changed();
	});
}
