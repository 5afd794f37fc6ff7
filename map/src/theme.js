// SPDX-License-Identifier: MIT
// Colours: those of the style sheet, for what is drawn on a canvas; and one for each session.

// Hue and lightness, so that white letters can be read on each.
const HUES = [
	[212, 47],
	[28, 44],
	[155, 36],
	[285, 50],
	[350, 49],
	[95, 36],
	[190, 38],
	[48, 37],
	[250, 55],
	[8, 47],
];
const dark = matchMedia('(prefers-color-scheme: dark)');

export const colours = {};

function read() {
	const style = getComputedStyle(document.documentElement);

	for (const name of ['ground', 'panel', 'text', 'dim', 'line', 'faint', 'accent', 'bad', 'mark'])
		colours[name] = style.getPropertyValue(`--${name}`).trim();
	colours.ui = style.getPropertyValue('--ui').trim();
	colours.mono = style.getPropertyValue('--mono').trim();
}

export function ofSession(index, part = 'block') {
	const [hue, light] = HUES[index % HUES.length];
	const [s, l] = {
		block: [36, light + 3],
		band: dark.matches ? [22, 17] : [50, 96],
		edge: dark.matches ? [28, 32] : [35, 82],
		ink: dark.matches ? [55, 78] : [60, 30],
	}[part];

	return `hsl(${hue} ${s}% ${l}%)`;
}

export function watchTheme(changed) {
	read();
	dark.addEventListener('change', () => {
		read();
		changed();
	});
}
