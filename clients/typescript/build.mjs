// node build.mjs FILE bundles the client into a file. Without one it builds dist/, the
// npm package.
import { execFileSync } from 'node:child_process';
import { build } from 'esbuild';

const [outfile] = process.argv.slice(2);
await build({
  entryPoints: ['src/index.ts'],
  outfile: outfile ?? 'dist/index.js',
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2020',
});
if (!outfile) execFileSync('node_modules/.bin/tsc', [], { stdio: 'inherit' });
