// The package, packed and installed into a project as its users do.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';

const tsc = resolve('node_modules/.bin/tsc');
let project;

before(() => {
  project = mkdtempSync(join(tmpdir(), 'stepboard-project-'));
  const [{ filename }] = JSON.parse(
    execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', project]),
  );
  writeFileSync(join(project, 'package.json'), '{"private":true}');
  execFileSync('npm', ['install', '--offline', '--no-audit', '--no-fund', `./${filename}`], {
    cwd: project,
  });
});
after(() => rmSync(project, { recursive: true }));

// inProject runs a program in the project and returns what it prints.
function inProject(program, ...args) {
  try {
    return execFileSync(program, args, { cwd: project, encoding: 'utf8' });
  } catch (error) {
    return error.stdout + error.stderr;
  }
}

test('It has what users look for', () => {
  const installed = join(project, 'node_modules/stepboard');
  for (const name of ['README.md', 'LICENSE', 'dist/index.js.map', 'dist/commonjs/index.js.map']) {
    assert.ok(existsSync(join(installed, name)), name);
  }
  const { main, module, types } = JSON.parse(readFileSync(join(installed, 'package.json')));
  for (const name of [main, module, types]) assert.ok(existsSync(join(installed, name)), name);
});

test('Node loads it as a module and as CommonJS', () => {
  const use = 'console.log(typeof createClient({ baseUrl: "http://a", token: () => "t" }).live)';
  writeFileSync(join(project, 'use.mjs'), `import { createClient } from 'stepboard'; ${use}`);
  writeFileSync(join(project, 'use.cjs'), `const { createClient } = require('stepboard'); ${use}`);
  assert.equal(inProject('node', 'use.mjs'), 'function\n');
  assert.equal(inProject('node', 'use.cjs'), 'function\n');
});

test('A page without a bundler imports one file', () => {
  const code = readFileSync(join(project, 'node_modules/stepboard/dist/index.js'), 'utf8');
  assert.doesNotMatch(code, /\bimport\b|\brequire\(/);
});

const program = `import { createClient, type Ranking } from 'stepboard';
const client = createClient({ baseUrl: '', token: () => 't' });
export const ranking: Promise<Ranking> = client.call('GET', '/v1/boards/{board}/friends', {
  path: { board: 'steps' },
});
`;

for (const [moduleResolution, module, file] of [
  ['node10', 'commonjs', 'use.ts'],
  ['node16', 'node16', 'use.mts'],
  ['node16', 'node16', 'use.cts'],
  ['bundler', 'esnext', 'use.ts'],
]) {
  test(`TypeScript finds its types: ${moduleResolution}, ${file}`, () => {
    // One run compiles both: it takes seconds.
    const wrong = `wrong-${file}`;
    writeFileSync(join(project, file), program);
    writeFileSync(join(project, wrong), program.replace("board: 'steps'", "bord: 'steps'"));
    const options = { moduleResolution, module, target: 'es2022', lib: ['es2022', 'dom'] };
    writeFileSync(
      join(project, 'tsconfig.json'),
      JSON.stringify({
        compilerOptions: { ...options, strict: true, types: [], noEmit: true },
        files: [file, wrong],
      }),
    );
    const errors = inProject(tsc, '-p', '.').match(/^\S.*$/gm);
    assert.equal(errors?.length, 1, `${errors}`);
    assert.ok(errors[0].startsWith(wrong) && errors[0].includes("'bord' does not"), errors[0]);
  });
}

test('The example for React compiles', () => {
  cpSync('examples/use-ranking.ts', join(project, 'use-ranking.ts'));
  cpSync('node_modules/@types/react', join(project, 'node_modules/@types/react'), {
    recursive: true,
  });
  cpSync('node_modules/csstype', join(project, 'node_modules/csstype'), { recursive: true });
  writeFileSync(
    join(project, 'tsconfig.json'),
    JSON.stringify({
      compilerOptions: {
        moduleResolution: 'bundler',
        module: 'esnext',
        target: 'es2022',
        lib: ['es2022', 'dom'],
        strict: true,
        exactOptionalPropertyTypes: true,
        noEmit: true,
      },
      files: ['use-ranking.ts'],
    }),
  );
  assert.equal(inProject(tsc, '-p', '.'), '');
});
