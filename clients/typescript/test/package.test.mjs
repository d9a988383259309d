import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';

test('The client takes less than 6 KB, compressed', () => {
  const { length } = gzipSync(readFileSync('dist/index.js'), { level: 9 });
  assert.ok(length < 6000, `${length} bytes`);
});

test('The files of the page and of the mini program are those that are built', () => {
  const folder = mkdtempSync(join(tmpdir(), 'stepboard-page-'));
  try {
    for (const [file, ...kind] of [
      ['../../web/page/vendor/stepboard.js'],
      ['../miniprogram/program/vendor/stepboard.js', 'miniprogram'],
    ]) {
      execFileSync('node', ['build.mjs', join(folder, 'stepboard.js'), ...kind]);
      const built = readFileSync(join(folder, 'stepboard.js'), 'utf8');
      assert.ok(readFileSync(file, 'utf8') === built, `${file}: run make generate`);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

// compile compiles modules with the client's types, and returns the errors of each. One run
// compiles all: it takes seconds.
function compile(...texts) {
  const folder = mkdtempSync(join(tmpdir(), 'stepboard-guide-'));
  try {
    const files = texts.map((text, i) => {
      const name = `guide-${i}.ts`;
      writeFileSync(join(folder, name), text);
      return name;
    });
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({
        compilerOptions: {
          target: 'ES2022',
          module: 'ESNext',
          moduleResolution: 'bundler',
          lib: ['ES2022', 'DOM'],
          types: [],
          strict: true,
          noEmit: true,
          paths: { stepboard: [resolve('src/index.ts')] },
        },
        files: [...files, resolve('test/guide-globals.d.ts')],
      }),
    );
    const { stdout } = spawnSync('node_modules/.bin/tsc', ['-p', folder], { encoding: 'utf8' });
    const errors = stdout.match(/^\S.*$/gm) ?? [];
    assert.ok(
      errors.every((line) => line.includes('guide-')),
      stdout,
    );
    return files.map((name) => errors.filter((line) => line.includes(name)).join('\n'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test('The snippets of docs/client.md compile', () => {
  const snippets = [
    ...readFileSync('../../docs/client.md', 'utf8').matchAll(/^```ts\n(.*?)^```/gms),
  ].map(([, code]) => code);
  assert.ok(snippets.length >= 6);
  // They are one program; each name is imported once.
  const imports = new Set();
  const lines = snippets
    .join('\n')
    .split('\n')
    .filter((line) => {
      const names = line.match(/^import \{ (.*) \} from 'stepboard';$/);
      names?.[1].split(', ').forEach((name) => imports.add(name));
      return !names;
    });
  const program = `import { ${[...imports].join(', ')} } from 'stepboard';\n${lines.join('\n')}`;
  const [right, member, code] = compile(
    program,
    program.replace("path: { board: 'steps' }", "path: { bord: 'steps' }"),
    program.replace("'user_not_found'", "'user_lost'"),
  );
  assert.equal(right, '');
  assert.match(member, /'bord' does not exist/);
  assert.match(code, /no overlap/);
});
