import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';

test('The client takes less than 6 KB, compressed', () => {
  const { length } = gzipSync(readFileSync('dist/index.js'), { level: 9 });
  assert.ok(length < 6000, `${length} bytes`);
});

test('The file of the page is the one that is built', () => {
  const checkedIn = readFileSync('../../web/page/vendor/stepboard.js', 'utf8');
  const built = readFileSync('dist/index.js', 'utf8').replace(/^\/\/# sourceMappingURL=.*\n/m, '');
  assert.ok(checkedIn === built, 'run make generate');
});

// compile compiles a module with the client's types, and returns what the compiler says.
function compile(text) {
  const folder = mkdtempSync(join(tmpdir(), 'stepboard-guide-'));
  try {
    writeFileSync(join(folder, 'guide.ts'), text);
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
        files: ['guide.ts', resolve('test/guide-globals.d.ts')],
      }),
    );
    execFileSync('node_modules/.bin/tsc', ['-p', folder], { encoding: 'utf8' });
    return '';
  } catch (error) {
    return error.stdout;
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
  assert.equal(compile(program), '');
  assert.match(
    compile(program.replace("path: { board: 'steps' }", "path: { bord: 'steps' }")),
    /'bord' does not exist/,
  );
  assert.match(compile(program.replace("'user_not_found'", "'user_lost'")), /no overlap/);
});
