// SPDX-License-Identifier: MIT
// Elements. Text of the user becomes text nodes, and nothing else.

const SVG = 'http://www.w3.org/2000/svg';

function build(element, props, children) {
	for (const [name, value] of Object.entries(props)) {
		if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
		else if (value !== undefined && value !== null && value !== false)
			element.setAttribute(name, value === true ? '' : value);
	}
	element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
	return element;
}

export function el(tag, props = {}, ...children) {
	return build(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
	return build(document.createElementNS(SVG, tag), props, children);
}

export function byId(id) {
	return document.getElementById(id);
}
