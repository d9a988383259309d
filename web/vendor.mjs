// Copies the libraries of package.json from node_modules to where they are served from. With
// --check it compares the copies instead, and fails if one differs.
import { readFile, writeFile } from 'node:fs/promises';

const withoutSourceMap = (text) =>
  text
    .replace(/^\/\/# sourceMappingURL=.*\n?/m, '')
    .replace(/\n*\/\*# sourceMappingURL=.*\*\/\s*$/, '');

// Each copy: its source, its place, and what is changed in it.
const copies = [
  ['preact/dist/preact.mjs', 'page/vendor/preact.js', withoutSourceMap],
  [
    'preact/hooks/dist/hooks.mjs',
    'page/vendor/hooks.js',
    (text) => withoutSourceMap(text).replace('"preact"', '"./preact.js"'),
  ],
  ['preact/LICENSE', 'page/vendor/LICENSE.preact'],
  ['htm/dist/htm.mjs', 'page/vendor/htm.js'],
  ['htm/LICENSE', 'page/vendor/LICENSE.htm'],
  ['lean-qr/index.mjs', 'page/vendor/lean-qr.js'],
  ['lean-qr/LICENSE', 'page/vendor/LICENSE.lean-qr'],
  [
    'uplot/dist/uPlot.iife.min.js',
    'page/vendor/uPlot.js',
    (text) => `${text}export default uPlot;\n`,
  ],
  ['uplot/dist/uPlot.min.css', 'page/vendor/uPlot.css'],
  ['uplot/LICENSE', 'page/vendor/LICENSE.uPlot'],
];

const check = process.argv.includes('--check');
let differing = 0;
for (const [source, target, change = (text) => text] of copies) {
  const text = change(await readFile(new URL(`node_modules/${source}`, import.meta.url), 'utf8'));
  const place = new URL(target, import.meta.url);
  if (!check) {
    await writeFile(place, text);
  } else if ((await readFile(place, 'utf8')) !== text) {
    console.error(`web/${target} is not the copy of ${source} that make generate writes`);
    differing++;
  }
}
if (check) {
  console.log(`${copies.length - differing} passed, ${differing} failed`);
}
process.exitCode = differing > 0 ? 1 : 0;
