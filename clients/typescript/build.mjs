// node build.mjs FILE bundles the client into a module for the page; node build.mjs FILE miniprogram, into a
// CommonJS module for the mini program. Without a file it builds dist/, what the npm package has: a module and
// a CommonJS module, each with its types and a source map.
import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { build } from 'esbuild';

const [file, miniProgram] = process.argv.slice(2);
const bundle = (outfile, format) =>
  build({
    entryPoints: ['src/index.ts'],
    outfile,
    bundle: true,
    minify: true,
    sourcemap: !file,
    format,
    target: 'es2020',
    plugins: file ? [withoutUploads] : [],
    ...(miniProgram && withoutGlobalThis),
  });
// Some phones' mini programs have no globalThis. Timers are what the client takes from it there.
const withoutGlobalThis = {
  define: { globalThis: 'platformOfMiniProgram' },
  banner: { js: 'const platformOfMiniProgram = { setTimeout, clearTimeout };' },
};
// The page and the mini program upload nothing by it, and what is loaded first should be small.
const withoutUploads = {
  name: 'without uploads',
  setup: ({ onResolve, onLoad }) => {
    const filter = /\/(uploads|addresses)\.js$/;
    onResolve({ filter }, () => ({ path: 'none', namespace: 'none' }));
    const contents = 'export let keepUploads; export const keepAddresses = () => {};';
    onLoad({ filter: /./, namespace: 'none' }, () => ({ contents }));
  },
};

if (file) {
  await bundle(file, miniProgram ? 'cjs' : 'esm');
} else {
  rmSync('dist', { recursive: true, force: true });
  await bundle('dist/index.js', 'esm');
  await bundle('dist/commonjs/index.js', 'cjs');
  execFileSync('node_modules/.bin/tsc', [], { stdio: 'inherit' });
  // Types count as those of a module or of CommonJS by the nearest package.json.
  for (const name of readdirSync('dist').filter((name) => name.endsWith('.d.ts'))) {
    cpSync(`dist/${name}`, `dist/commonjs/${name}`);
  }
  writeFileSync('dist/commonjs/package.json', '{ "type": "commonjs" }\n');
  copyFileSync('../../LICENSE', 'LICENSE');
}
