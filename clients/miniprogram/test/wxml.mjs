// Renders the WXML of a page with its data: to a tree, of which tests read the text and find what to tap, and
// to HTML. It knows what the pages here use, and refuses the rest.
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';

const TOKEN =
  /<!--[\s\S]*?-->|<\/([\w-]+)\s*>|<([\w-]+)((?:\s+[\w:-]+(?:="[^"]*")?)*)\s*(\/?)>|([^<]+)/gy;

/** parse returns the nodes of a WXML file: { tag, attributes, children }, or texts. */
function parse(file) {
  const source = readFileSync(file, 'utf8');
  const root = { tag: 'page', attributes: {}, children: [] };
  const open = [root];
  let at = 0;
  for (const match of source.matchAll(TOKEN)) {
    const [whole, closes, tag, attributes, empty, text] = match;
    at = match.index + whole.length;
    const parent = open.at(-1);
    if (closes) {
      if (open.pop().tag !== closes) throw new Error(`${file}: </${closes}>`);
    } else if (tag) {
      const node = { tag, attributes: {}, children: [] };
      for (const [, name, value] of attributes.matchAll(/([\w:-]+)(?:="([^"]*)")?/g))
        node.attributes[name] = value ?? '{{true}}';
      if (tag === 'include') node.children = parse(resolve(dirname(file), node.attributes.src));
      parent.children.push(node);
      if (!empty) open.push(node);
    } else if (text?.trim()) {
      parent.children.push(text.trim());
    }
  }
  if (at !== source.length || open.length !== 1)
    throw new Error(`${file}: not understood after ${at}`);
  return root.children;
}

/** evaluate returns the value of what {{}} contains. A name that the page's data lack is an error. */
function evaluate(expression, data) {
  const known = new Proxy(data, {
    has: (_, name) => typeof name === 'string',
    get: (target, name) => {
      if (name === Symbol.unscopables) return undefined;
      if (!(name in target)) throw new Error(`{{${expression}}}: no ${String(name)} in the data`);
      return target[name];
    },
  });
  return new Function('data', `with (data) { return (${expression}); }`)(known);
}

function fill(text, data) {
  const only = /^\{\{([^}]*)\}\}$/.exec(text);
  if (only) return evaluate(only[1], data);
  return text.replace(/\{\{([^}]*)\}\}/g, (_, expression) => evaluate(expression, data) ?? '');
}

const STRUCTURE = new Set(['wx:if', 'wx:elif', 'wx:else', 'wx:for', 'wx:key', 'wx:for-item']);

/** expand returns the nodes that the data make of parsed nodes. */
function expand(nodes, data) {
  const shown = [];
  let before = true; // whether a branch of the current wx:if was taken
  for (const node of nodes) {
    if (typeof node === 'string') {
      shown.push(String(fill(node, data) ?? ''));
      continue;
    }
    const { tag, attributes } = node;
    if ('wx:for' in attributes) {
      const item = attributes['wx:for-item'] ?? 'item';
      const once = { ...node, attributes: { ...attributes } };
      delete once.attributes['wx:for'];
      fill(attributes['wx:for'], data).forEach((value, index) =>
        shown.push(...expand([once], { ...data, [item]: value, index })),
      );
      continue;
    }
    if ('wx:if' in attributes) before = !!fill(attributes['wx:if'], data);
    else if ('wx:elif' in attributes || 'wx:else' in attributes) {
      if (before) continue;
      before = 'wx:else' in attributes || !!fill(attributes['wx:elif'], data);
    } else before = true;
    if (!before) continue;
    const children = expand(node.children, data);
    if (tag === 'block' || tag === 'include') {
      shown.push(...children);
      continue;
    }
    const filled = Object.entries(attributes)
      .filter(([name]) => !STRUCTURE.has(name))
      .map(([name, value]) => [name, fill(value, data)]);
    const model = /^\{\{(\w+)\}\}$/.exec(attributes['model:value'])?.[1];
    shown.push({ tag, attributes: Object.fromEntries(filled), children, model });
  }
  return shown;
}

/** render returns the tree that a page shows. */
export const render = (file, data) => expand(parse(file), data);

/** textOf returns the visible text of nodes, with a space between two elements. */
export const textOf = (nodes) =>
  nodes
    .map((node) => (typeof node === 'string' ? node : textOf(node.children)))
    .filter(Boolean)
    .join(' ');

/** elements returns every element of nodes, each with the elements around it. */
export function* elements(nodes, around = []) {
  for (const node of nodes.filter((one) => typeof one !== 'string')) {
    yield { ...node, around };
    yield* elements(node.children, [...around, node]);
  }
}

const HTML = {
  view: 'div',
  text: 'span',
  'scroll-view': 'div',
  image: 'img',
  form: 'form',
  button: 'button',
};
const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

/** htmlOf returns nodes as HTML. */
export const htmlOf = (nodes) =>
  nodes
    .map((node) => {
      if (typeof node === 'string') return escaped(node);
      const { tag, attributes: a } = node;
      const kept = ['class', 'style', 'src', 'placeholder']
        .filter((name) => a[name])
        .map((name) => ` ${name}="${escaped(a[name])}"`);
      if (a.disabled) kept.push(' disabled');
      if (tag === 'input')
        return `<input${kept.join('')} value="${escaped(a.value ?? a['model:value'] ?? '')}">`;
      if (!HTML[tag]) throw new Error(`<${tag}> is not known here`);
      return `<${HTML[tag]}${kept.join('')}>${htmlOf(node.children)}</${HTML[tag]}>`;
    })
    .join('');

/** cssOf returns WXSS as CSS for a phone that is 375 pixels wide. */
export const cssOf = (file) =>
  readFileSync(file, 'utf8')
    .replace(/(\d+)rpx/g, (_, rpx) => `${rpx / 2}px`)
    .replace(/^page\b/m, 'body');
